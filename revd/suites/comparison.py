"""A comparison: the same task, settings and seeds for several methods, one of them without a bonus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from revd.runs.config import AUTO, NO_REWARD, RUNS, TrainConfig, file_name
from revd.runs.cpu_threads import available_cores
from revd.suites.suite import Method

#: Between a reward and its fixed weight: `revd@0.1`.
AT = "@"


@dataclass(frozen=True, kw_only=True)
class ComparisonConfig:
    """Several methods on one task.

    Attributes:
        task: The task.
        methods: The methods, no two of them alike; those without a bonus are what the others are compared with.
        settings: Fields of `TrainConfig` that all runs share.
        seeds: Seeds of each method, from 1 on.
        steps: Environment steps of each run.
        threshold: The return whose first reaching is compared, besides the final return; None for none.
        jobs: Runs at a time; 0 for one on each processor core.
        output: Directory of the comparison.
    """

    task: str
    methods: tuple[Method, ...]
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seeds: int = 3
    steps: int = 100_000
    threshold: float | None = None
    jobs: int = 0
    output: Path

    def __post_init__(self) -> None:
        for name, smallest in {"seeds": 1, "steps": 1, "jobs": 0}.items():
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} must be at least {smallest}, got {getattr(self, name)}")

    @property
    def processes(self) -> int:
        """Runs at a time, with 0 replaced by the number of cores."""
        return self.jobs or available_cores()


def comparison_runs(comparison: ComparisonConfig) -> list[TrainConfig]:
    """All methods with equal settings, seed by seed, so that an early stop leaves complete comparisons."""
    return [
        _run_config(comparison, method, seed)
        for seed in range(1, comparison.seeds + 1)
        for method in comparison.methods
    ]


def check_comparison(comparison: ComparisonConfig) -> None:
    """Raise the ValueError of a method that cannot be trained, before any run has started.

    The environments, the algorithm and the bonus of each method are built once, on the CPU. Methods whose runs have
    all finished are not checked.
    """
    from revd.runs.directory import RunDirectory
    from revd.runs.train import check_names, prepare

    waiting = [run for run in comparison_runs(comparison) if not RunDirectory(run.directory).is_finished(run.steps)]
    methods = {(run.algo, run.reward, run.weight): run for run in reversed(waiting)}.values()
    for config in methods:
        check_names(config)
    for config in methods:
        prepare(replace(config, device="cpu")).close()


def parse_methods(algos: Sequence[str], rewards: Sequence[str], *, weight: object = AUTO) -> tuple[Method, ...]:
    """Every reward with every algorithm, and each algorithm without a bonus first if `none` is not among the rewards.

    Args:
        algos: Names of algorithms.
        rewards: `none`, a reward's name, MODULE:CLASS or NAME+NAME; each with @WEIGHT for a fixed weight of its own.
        weight: The weight of the others.
    """
    named = [NO_REWARD] * (NO_REWARD not in rewards) + list(rewards)
    methods = [_parse_method(algo, word, weight) for algo in algos for word in named]
    for index, method in enumerate(methods):
        if any(method._replace(label="") == other._replace(label="") for other in methods[:index]):
            raise ValueError(f"rewards and algos name {method.name} twice, got {[*rewards]} and {[*algos]}")
    if not any(method.reward != NO_REWARD for method in methods):
        raise ValueError(f"rewards must name a bonus to compare with none, such as revd, got {[*rewards]}")
    return tuple(methods)


def default_output(task: str) -> Path:
    """The directory of a comparison on a task."""
    return RUNS / f"compare-{file_name(task)}"


def _parse_method(algo: str, word: str, weight: object) -> Method:
    reward, at, given = word.partition(AT)
    if not at:
        return Method(algo, reward, "", {} if reward == NO_REWARD else {"weight": weight})
    if reward == NO_REWARD:
        raise ValueError(f"rewards: {NO_REWARD!r} pays no bonus and has no weight, got {word!r}")
    return Method(algo, reward, f"weight-{given}", {"weight": _parse_weight(given, word)})


def _parse_weight(text: str, word: str) -> object:
    try:
        return AUTO if text == AUTO else float(text)
    except ValueError as error:
        raise ValueError(f"rewards: expected NAME or NAME@WEIGHT, as in revd@0.1 or revd@auto, got {word!r}") from error


def _run_config(comparison: ComparisonConfig, method: Method, seed: int) -> TrainConfig:
    parts = (method.algo, "" if method.reward == NO_REWARD else method.reward, method.label, f"seed{seed}")
    return TrainConfig(
        task=comparison.task,
        algo=method.algo,
        reward=method.reward,
        seed=seed,
        steps=comparison.steps,
        output=comparison.output / file_name("-".join(part for part in parts if part)),
        **{**comparison.settings, **method.settings},
    )
