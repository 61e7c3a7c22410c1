"""What a suite is: a grid of tasks, methods, variants and seeds, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from revd.runs.config import NO_REWARD


class Method(NamedTuple):
    """A row of a comparison: an algorithm, a reward, and settings of its own.

    Attributes:
        algo: Name of the algorithm.
        reward: Name of the reward, or "none".
        label: Tells it from other methods with the same reward; part of its name and of its runs' directories.
        settings: Fields of `TrainConfig`, over the suite's.
    """

    algo: str
    reward: str
    label: str = ""
    settings: Mapping[str, Any] = MappingProxyType({})

    @property
    def name(self) -> str:
        """Its name on the command line, such as ppo, ppo+revd or ppo+revd-paper-weight."""
        name = self.algo if self.reward == NO_REWARD else f"{self.algo}+{self.reward}"
        return f"{name}-{self.label}" if self.label else name


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A grid of runs: every task with every method, variant and seed.

    Attributes:
        description: One line for listings.
        tasks: Names of tasks.
        methods: Algorithm and reward of each method.
        seeds: Seeds of each method.
        more_tasks: Tasks that are run only if they are named.
        more_methods: Methods that are run only if they are named.
        preset: Preset of the runs.
        settings: Fields of `TrainConfig` that all runs share, over the preset's.
        task_settings: Fields for single tasks, over those.
        variants: Settings by name, each for a run of its own; by default one without a name.
    """

    description: str
    tasks: tuple[str, ...]
    methods: tuple[Method, ...]
    seeds: tuple[int, ...] = tuple(range(10))
    more_tasks: tuple[str, ...] = ()
    more_methods: tuple[Method, ...] = ()
    preset: str = "paper"
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    task_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({"": {}}))
