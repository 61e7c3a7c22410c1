"""Suites of runs as data: a grid of tasks, methods and seeds becomes a list of configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from revd.envs.tasks import SPARSITY, TASKS, find_task
from revd.names import unknown_name
from revd.runs.config import NO_REWARD, OF_THE_BONUS, RUNS, Parameters, TrainConfig, file_name
from revd.runs.presets import preset_fields

#: An algorithm and a reward.
Method = tuple[str, str]

_ATARI = tuple(name for name, task in TASKS.items() if task.suite == "atari")
_BULLET = tuple(name for name, task in TASKS.items() if task.suite == "bullet")
_DENSE: tuple[Method, ...] = (
    ("ppo", NO_REWARD),
    ("ppo", "revd"),
    ("ppo", "re3"),
    ("ppo", "ride"),
    ("a2c", NO_REWARD),
    ("a2c", "revd"),
)
_SPARSE: tuple[Method, ...] = (("ppo", NO_REWARD), ("ppo", "revd"), ("ppo", "re3"), ("ppo", "ride"))
_TEN_SEEDS = tuple(range(10))


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Every task with every method, variant and seed.

    Attributes:
        description: One line for listings.
        tasks: Names of tasks.
        methods: Algorithm and reward of each method.
        seeds: Seeds of each.
        preset: Preset of the runs.
        settings: Fields of `TrainConfig` that all runs share, over the preset's.
        variants: Named settings, each of which makes a run of its own; one without a name by default.
    """

    description: str
    tasks: tuple[str, ...]
    methods: tuple[Method, ...]
    seeds: tuple[int, ...] = _TEN_SEEDS
    preset: str = "paper"
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({"": {}}))


def _re3_grid(tasks: tuple[str, ...]) -> Suite:
    """The paper's search over RE3's decay and k, on seeds other than the reported ones."""
    return Suite(
        description="RE3's grid of the paper: decay 1e-3, 1e-4, 1e-5 and k 5, 10, on seeds 100-102",
        tasks=tasks,
        methods=(("ppo", "re3"),),
        seeds=(100, 101, 102),
        variants={
            f"decay{decay:g}-k{k}": {"decay": decay, "reward_params": {"k": k}}
            for decay in (1e-3, 1e-4, 1e-5)
            for k in (5, 10)
        },
    )


SUITES: Mapping[str, Suite] = {
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
    return {algo if reward == NO_REWARD else f"{algo}+{reward}": (algo, reward) for algo, reward in suite.methods}


def suite_runs(
    name: str,
    *,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
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
        seeds: These seeds instead of its own.
        steps: These many steps instead of its own.
        output: Directory of the suite; `runs/NAME` by default. A link in it that leads out of it is a ValueError.
        shard: (i, n) takes the i-th of every n runs.
    """
    suite = find_suite(name)
    named = method_names(suite)
    for kind, asked, valid in (("task", tasks, suite.tasks), ("method", methods, named)):
        for word in asked:
            if word not in valid:
                raise ValueError(unknown_name(f"{kind} of suite {name}", word, valid))
    index, count = shard
    if not 1 <= index <= count:
        raise ValueError(f"shard must be I/N with 1 <= I <= N, got {index}/{count}")
    changes = {} if steps is None else {"steps": steps}
    root = RUNS / name if output is None else output
    runs = [
        _run(suite, task, method, variant, seed, root, changes)
        for seed in seeds or suite.seeds
        for task in tasks or suite.tasks
        for method in [named[word] for word in methods] or suite.methods
        for variant in suite.variants
    ]
    chosen = runs[index - 1 :: count]
    for config in chosen:
        _require_inside(root, config.directory)
    return chosen


def preset_config(preset: str, *, task: str, algo: str, reward: str, **changes: Any) -> TrainConfig:
    """A training with the values of a preset, and `changes` over them; parameters are merged one by one."""
    values = preset_fields(preset, suite=find_task(task).suite, algo=algo, reward=reward)
    merged = {
        name: Parameters({**values.get(name, {}), **changes.get(name, {})}) for name in ("algo_params", "reward_params")
    }
    return TrainConfig(task=task, algo=algo, reward=reward, **{**values, **changes, **merged})


def _require_inside(root: Path, directory: Path) -> None:
    """Refuse a run that a symbolic link would let write elsewhere; the suite's own directory may be one."""
    found = directory.resolve()
    if not found.is_relative_to(root.resolve()):
        raise ValueError(f"a symbolic link leads the run {str(directory)!r} out of {str(root)!r}, to {str(found)!r}")


def _run(
    suite: Suite, task: str, method: Method, variant: str, seed: int, root: Path, changes: Mapping[str, Any]
) -> TrainConfig:
    algo, reward = method
    settings = {**suite.settings, **suite.variants[variant], **changes}
    if reward == NO_REWARD:
        settings = {name: value for name, value in settings.items() if name not in OF_THE_BONUS}
    name = "-".join(part for part in (algo, reward, variant, f"seed{seed}") if part)
    return preset_config(
        suite.preset,
        task=task,
        algo=algo,
        reward=reward,
        seed=seed,
        output=root / file_name(task) / file_name(name),
        **settings,
    )
