"""Suites as data: a grid of tasks, methods, variants and seeds becomes a list of configs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from revd.envs.tasks import SPARSITY, TASKS
from revd.names import unknown_name
from revd.runs.config import BONUS_FIELDS, NO_REWARD, RUNS, TrainConfig, file_name
from revd.runs.presets import preset_config


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


_ATARI = tuple(name for name, task in TASKS.items() if task.family == "atari")
_BULLET = tuple(name for name, task in TASKS.items() if task.family == "bullet")
_DENSE: tuple[Method, ...] = (
    Method("ppo", NO_REWARD),
    Method("ppo", "revd"),
    Method("ppo", "re3"),
    Method("ppo", "ride"),
    Method("a2c", NO_REWARD),
    Method("a2c", "revd"),
)
_SPARSE: tuple[Method, ...] = (
    Method("ppo", NO_REWARD),
    Method("ppo", "revd"),
    Method("ppo", "re3"),
    Method("ppo", "ride"),
)
_TEN_SEEDS = tuple(range(10))


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A grid of runs: every task with every method, variant and seed.

    Attributes:
        description: One line for listings.
        tasks: Names of tasks.
        methods: Algorithm and reward of each method.
        seeds: Seeds of each method.
        preset: Preset of the runs.
        settings: Fields of `TrainConfig` that all runs share, over the preset's.
        task_settings: Fields for single tasks, over those.
        variants: Settings by name, each for a run of its own; by default one without a name.
    """

    description: str
    tasks: tuple[str, ...]
    methods: tuple[Method, ...]
    seeds: tuple[int, ...] = _TEN_SEEDS
    preset: str = "paper"
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    task_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({"": {}}))


def _re3_grid(tasks: tuple[str, ...]) -> Suite:
    """The paper's search over RE3's decay and k, with other seeds than those reported."""
    return Suite(
        description="RE3's grid of the paper: decay 1e-3, 1e-4, 1e-5 and k 5, 10, on seeds 100-102",
        tasks=tasks,
        methods=(Method("ppo", "re3"),),
        seeds=(100, 101, 102),
        variants={
            f"decay{decay:g}-k{k}": {"decay": decay, "reward_params": {"k": k}}
            for decay in (1e-3, 1e-4, 1e-5)
            for k in (5, 10)
        },
    )


#: REVD with a fixed weight as in the paper: PyTorch's initialisation, and no merging of duplicates.
_PAPER_WEIGHT = Method(
    "ppo", "revd", "paper-weight", {"weight": 0.1, "reward_params": {"init": "torch", "merge_duplicates": False}}
)
#: REVD's own defaults, where the paper's preset differs.
_OWN_DEFAULTS = {"embedding_size": 128, "init": "orthogonal", "merge_duplicates": True}
_MINIGRID = {
    "steps": 2_000_000,
    "n_envs": 32,
    "algo_params": {"n_steps": 128, "batch_size": 512, "n_epochs": 4, "ent_coef": 0.01},
}

SUITES: Mapping[str, Suite] = {
    "balance": Suite(
        description="The automatic weight against PPO, the paper's fixed weight and random numbers: rare rewards",
        tasks=(
            "classic/mountain-car",
            "minigrid/door-key-8x8",
            "minigrid/key-corridor-s3r2",
            "minigrid/key-corridor-s3r3",
        ),
        methods=(Method("ppo", NO_REWARD), Method("ppo", "revd"), _PAPER_WEIGHT, Method("ppo", "noise")),
        seeds=(1, 2, 3, 4, 5),
        preset="none",
        task_settings={
            "classic/mountain-car": {
                "steps": 120_000,
                "normalize": "observations",
                "algo_params": {"n_steps": 128, "batch_size": 64, "n_epochs": 10},
            },
            "minigrid/door-key-8x8": {**_MINIGRID, "steps": 1_000_000},
            "minigrid/key-corridor-s3r2": _MINIGRID,
            "minigrid/key-corridor-s3r3": _MINIGRID,
        },
    ),
    "balance-bullet": Suite(
        description="The same on four PyBullet tasks with dense rewards, 300,000 steps, ten seeds",
        tasks=("bullet/hopper", "bullet/half-cheetah", "bullet/ant", "bullet/walker-2d"),
        # The paper's settings of PPO, but REVD's own defaults for the automatic weight.
        methods=(
            Method("ppo", NO_REWARD),
            Method("ppo", "revd", "", {"weight": "auto", "reward_params": _OWN_DEFAULTS}),
            Method("ppo", "revd", "paper-weight"),
        ),
        seeds=tuple(range(1, 11)),
        settings={"steps": 300_000},
    ),
    "paper-atari": Suite(
        description="The paper's six Atari games, 10 M steps, six methods, ten seeds", tasks=_ATARI, methods=_DENSE
    ),
    "paper-bullet": Suite(
        description="The paper's six PyBullet tasks, 2 M steps, six methods, ten seeds", tasks=_BULLET, methods=_DENSE
    ),
    "paper-atari-sparse": Suite(
        description="The Atari games with nine of ten rewards hidden",
        tasks=_ATARI,
        methods=_SPARSE,
        settings={"sparse": SPARSITY},
    ),
    "paper-bullet-sparse": Suite(
        description="The PyBullet tasks with nine of ten rewards hidden",
        tasks=_BULLET,
        methods=_SPARSE,
        settings={"sparse": SPARSITY},
    ),
    "re3-grid-atari": _re3_grid(_ATARI),
    "re3-grid-bullet": _re3_grid(_BULLET),
    "smoke": Suite(
        description="Minutes: two small tasks, all methods, two seeds, 40,000 steps; shows that everything works",
        tasks=("classic/mountain-car", "classic/cart-pole"),
        methods=_DENSE,
        seeds=(0, 1),
        preset="none",
        settings={"steps": 40_000, "weight": 1.0, "normalize": "observations", "checkpoint_every": 10_000},
    ),
}


def find_suite(name: str) -> Suite:
    """The suite of that name."""
    if name not in SUITES:
        raise ValueError(unknown_name("suite", name, SUITES))
    return SUITES[name]


def method_names(suite: Suite) -> dict[str, Method]:
    """The methods of a suite by names such as `ppo` and `ppo+revd`."""
    return {method.name: method for method in suite.methods}


def suite_runs(
    name: str,
    *,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    rewards: Sequence[str] = (),
    seeds: Sequence[int] = (),
    steps: int | None = None,
    output: Path | None = None,
    shard: tuple[int, int] = (1, 1),
) -> list[TrainConfig]:
    """The runs of a suite, seed by seed, so that an early stop leaves complete comparisons.

    Args:
        name: Name of the suite.
        tasks: Only these of its tasks.
        methods: Only these of its methods, named as in `method_names`.
        rewards: These rewards with each of its algorithms, besides `methods` or instead of all its methods.
        seeds: These seeds instead of the suite's.
        steps: This number of steps instead of the suite's.
        output: Directory of the suite; `runs/NAME` by default. A link in it that leads out of it is a ValueError.
        shard: (i, n) takes every n-th run, from the i-th on.
    """
    suite = find_suite(name)
    named = method_names(suite)
    _require_names(f"task of suite {name}", tasks, suite.tasks)
    _require_names(f"method of suite {name}", methods, named)
    index, count = shard
    if not 1 <= index <= count:
        raise ValueError(f"shard must be I/N with 1 <= I <= N, got {index}/{count}")
    changes = {} if steps is None else {"steps": steps}
    root = RUNS / name if output is None else output
    runs = [
        _run_config(suite, task, method, variant, seed, root, changes)
        for seed in seeds or suite.seeds
        for task in tasks or suite.tasks
        for method in _chosen_methods(suite, methods, rewards)
        for variant in suite.variants
    ]
    shard_runs = runs[index - 1 :: count]
    for config in shard_runs:
        _require_inside(root, config.directory)
    return shard_runs


def _chosen_methods(suite: Suite, methods: Sequence[str], rewards: Sequence[str]) -> Sequence[Method]:
    named = method_names(suite)
    algorithms = dict.fromkeys(method.algo for method in suite.methods)
    added = [Method(algo, reward) for algo in algorithms for reward in rewards]
    # By name, since a method's settings cannot be hashed.
    chosen = {method.name: method for method in [*(named[word] for word in methods), *added]}
    return list(chosen.values()) or suite.methods


def _require_names(kind: str, words: Sequence[str], valid: Collection[str]) -> None:
    for word in words:
        if word not in valid:
            raise ValueError(unknown_name(kind, word, valid))


def _require_inside(root: Path, directory: Path) -> None:
    """Raise a ValueError if a symbolic link leads a run out of the suite's directory, which may itself be a link."""
    found = directory.resolve()
    if not found.is_relative_to(root.resolve()):
        raise ValueError(f"a symbolic link leads the run {str(directory)!r} out of {str(root)!r}, to {str(found)!r}")


def _run_config(
    suite: Suite, task: str, method: Method, variant: str, seed: int, root: Path, changes: Mapping[str, Any]
) -> TrainConfig:
    task_settings = suite.task_settings.get(task, {})
    settings = {**suite.settings, **task_settings, **suite.variants[variant], **method.settings, **changes}
    if method.reward == NO_REWARD:
        settings = {name: value for name, value in settings.items() if name not in BONUS_FIELDS}
    name = "-".join(part for part in (method.algo, method.reward, method.label, variant, f"seed{seed}") if part)
    return preset_config(
        suite.preset,
        task=task,
        algo=method.algo,
        reward=method.reward,
        seed=seed,
        output=root / file_name(task) / file_name(name),
        **settings,
    )
