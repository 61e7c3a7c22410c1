"""The runs of a suite: its grid of tasks, methods, variants and seeds becomes a list of configs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from revd.names import unknown_name
from revd.runs.config import BONUS_FIELDS, NO_REWARD, RUNS, TrainConfig, file_name
from revd.runs.presets import preset_config
from revd.suites.catalog import find_suite
from revd.suites.suite import Method, Suite


def method_names(suite: Suite) -> dict[str, Method]:
    """The methods that a suite offers, by names such as `ppo` and `ppo+revd`."""
    return {method.name: method for method in (*suite.methods, *suite.more_methods)}


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
        tasks: Only these of its tasks and of those that it offers besides.
        methods: Only these of the methods in `method_names`.
        rewards: These rewards with each of its algorithms, besides `methods` or instead of all its methods.
        seeds: These seeds instead of the suite's.
        steps: This number of steps instead of the suite's.
        output: Directory of the suite; `runs/NAME` by default. A link in it that leads out of it is a ValueError.
        shard: (i, n) takes every n-th run, from the i-th on.
    """
    suite = find_suite(name)
    named = method_names(suite)
    _require_names(f"task of suite {name}", tasks, (*suite.tasks, *suite.more_tasks))
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
