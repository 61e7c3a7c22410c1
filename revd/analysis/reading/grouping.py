"""The paper's result figures as data: which methods they hold against each other, and which runs belong to them."""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from revd.analysis.reading.runs import Run

SUITES: Mapping[str, str] = {
    "atari": "Atari",
    "bullet": "PyBullet",
    "classic": "Classic control",
    "minigrid": "MiniGrid",
    "gymnasium": "Gymnasium",
}

Pairs = tuple[tuple[str, str], ...]
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Methods that one figure compares, and the pairs of which it asks how probably the first beats the second."""

    name: str
    title: str
    methods: tuple[str, ...]
    comparisons: Pairs
    sparse: bool = False


_WITH_BENCHMARKS = ("PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE")
_REVD_AGAINST_BENCHMARKS = tuple(("PPO+REVD", other) for other in ("PPO", "PPO+RE3", "PPO+RIDE"))

#: In the order of the paper's figures, which has these three for Atari and the same three for PyBullet.
GROUPINGS = (
    Grouping(
        name="algorithms",
        title="PPO and A2C with and without REVD",
        methods=("PPO", "PPO+REVD", "A2C", "A2C+REVD"),
        comparisons=(("PPO+REVD", "PPO"), ("A2C+REVD", "A2C")),
    ),
    Grouping(
        name="rewards",
        title="PPO with different exploration rewards",
        methods=_WITH_BENCHMARKS,
        comparisons=_REVD_AGAINST_BENCHMARKS,
    ),
    Grouping(
        name="sparse",
        title="PPO with different exploration rewards",
        methods=_WITH_BENCHMARKS,
        comparisons=_REVD_AGAINST_BENCHMARKS,
        sparse=True,
    ),
)

#: Tables and legends list methods in this order, and after them all others by name.
METHODS = ("PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE", "A2C", "A2C+REVD")

# What may differ between runs of one method: it changes how or how long a training runs, not what it learns from.
_SAME_METHOD = frozenset(
    {
        "task", "algo", "reward", "sparse", "seed", "steps", "output", "device", "trainer", "threads",
        "emulator_threads", "checkpoint_every", "eval_every", "eval_episodes", "reward_params.seed",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The runs of one figure."""

    name: str
    title: str
    runs: tuple[Run, ...]
    comparisons: Pairs

    @property
    def tasks(self) -> list[str]:
        """Its tasks, one panel each."""
        return sorted({run.task for run in self.runs})

    @property
    def methods(self) -> list[str]:
        """Labels of its methods, in the figure's order."""
        return list(dict.fromkeys(run.label for run in self.runs))

    def pairs(self, labels: Sequence[str]) -> Pairs:
        """
        Which of some of its methods are held against which: first the figure's own pairs.

        Then every method with a bonus against its algorithm without one, and whatever is in no pair yet against the
        first of all: there is a comparison wherever there are two methods.
        """
        methods = {run.label: run.method for run in self.runs}
        found = [pair for pair in self.comparisons if set(pair) <= set(labels)]
        plain = [label for label in labels if "+" not in methods[label]]
        reference = next(iter(plain or labels), "")
        for label in labels:
            own = [base for base in plain if methods[base] == methods[label].partition("+")[0]]
            # Of several variants without a bonus, the one with the same settings.
            bases = [base for base in own if variant_of(base) == variant_of(label)] or own or [reference]
            held = any(label == better and worse in plain for better, worse in found) or (bases[0], label) in found
            if label not in plain and not held:
                found += [(label, bases[0])]
        alone = [label for label in labels if not any(label in pair for pair in found)]
        others = plain if reference in alone else alone
        found += [(label, reference) for label in others]
        return tuple((better, worse) for better, worse in found if better != worse)

    def of(self, task: str, method: str) -> list[Run]:
        """Runs of one method on one task."""
        return [run for run in self.runs if (run.task, run.label) == (task, method)]


def variant_of(label: str) -> str:
    """What a label says in brackets about the variant; empty if there is one kind of runs only."""
    return label.partition(" (")[2]


def suite_of(task: str) -> str:
    """The family of a task by its name: `bullet/hopper` is of bullet; a plain Gymnasium id of gymnasium."""
    prefix, separator, _ = task.partition("/")
    return prefix if separator and prefix in SUITES else "gymnasium"


def select(runs: Sequence[Run]) -> list[Selection]:
    """The figures for which there are runs: the paper's, and one of all methods where some are in none of those."""
    found = []
    for suite, sparse in _settings(runs):
        here = [run for run in runs if suite_of(run.task) == suite and run.sparse == sparse]
        groupings = [grouping for grouping in GROUPINGS if grouping.sparse == (sparse is not None)]
        shown = [*_distinct(groupings, here), *_everything(here, groupings)]
        found += [_selection(suite, sparse, grouping, here) for grouping in shown]
    return found


def group_by(runs: Iterable[Run], key: Callable[[Run], Key]) -> dict[Key, list[Run]]:
    """Runs with the same key together, in the order in which keys first appear."""
    groups: dict[Key, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def distinguish(runs: Sequence[Run]) -> list[Run]:
    """
    Name the variants of methods that were run with several settings, so that they are never pooled as one.

    A variant is told by the settings that differ between runs of the same method on the same task.
    """
    flat = {run.directory: _flatten(run.settings) for run in runs}
    varying: dict[tuple[str, float | None, str], set[str]] = {}
    for (task, sparse, method), group in group_by(runs, lambda run: (run.task, run.sparse, run.method)).items():
        settings = [flat[run.directory] for run in group]
        varying.setdefault((suite_of(task), sparse, method), set()).update(_changing(settings))
    return [
        replace(run, variant=_describe(flat[run.directory], varying[suite_of(run.task), run.sparse, run.method]))
        for run in runs
    ]


def in_order(runs: Iterable[Run]) -> list[Run]:
    """Runs as tables list them: by suite, sparseness, task, method, variant and seed."""
    return sorted(
        runs, key=lambda run: (*_setting_order(suite_of(run.task), run.sparse), run.task, *_method_order(run))
    )


def _settings(runs: Iterable[Run]) -> list[tuple[str, float | None]]:
    return sorted({(suite_of(run.task), run.sparse) for run in runs}, key=lambda setting: _setting_order(*setting))


def _setting_order(suite: str, sparse: float | None) -> tuple[int, float]:
    return list(SUITES).index(suite), -1.0 if sparse is None else sparse


def _method_order(run: Run) -> tuple[int, str, str, int, str]:
    place = METHODS.index(run.method) if run.method in METHODS else len(METHODS)
    return place, run.method, run.variant, run.seed, str(run.directory)


def _everything(runs: Sequence[Run], groupings: Sequence[Grouping]) -> list[Grouping]:
    present = list(dict.fromkeys(run.method for run in in_order(runs)))
    if set(present) <= {method for grouping in groupings for method in grouping.methods}:
        return []
    pairs = tuple((method, plain) for method in present if (plain := method.partition("+")[0]) != method)
    name = "sparse-all" if any(grouping.sparse for grouping in groupings) else "all"
    return [Grouping(name=name, title="all methods", methods=tuple(present), comparisons=pairs)]


def _distinct(groupings: Sequence[Grouping], runs: Sequence[Run]) -> list[Grouping]:
    """Those with runs, less those that would only repeat a part of another figure."""
    present = {run.method for run in runs}
    shown = [present & set(grouping.methods) for grouping in groupings]
    return [
        grouping
        for index, grouping in enumerate(groupings)
        if shown[index] and not any(shown[index] < other for other in shown) and shown[index] not in shown[:index]
    ]


def _selection(suite: str, sparse: float | None, grouping: Grouping, runs: Sequence[Run]) -> Selection:
    chosen = [run for run in runs if run.method in grouping.methods]
    chosen.sort(key=lambda run: (grouping.methods.index(run.method), run.variant, run.task, run.seed))
    labels = {run.label: run.method for run in chosen}
    pairs = [
        (better, worse)
        for first, second in grouping.comparisons
        for better in labels
        for worse in labels
        if (labels[better], labels[worse]) == (first, second)
    ]
    missing = set(grouping.methods) - set(labels.values())
    title = f"{SUITES[suite]}: {', '.join(dict.fromkeys(labels.values())) if missing else grouping.title}"
    name = f"{suite}-{grouping.name}"
    if sparse is not None:
        name, title = f"{name}-{sparse:g}", f"{title} (rewards zeroed with probability {sparse:g})"
    return Selection(name=name, title=title, runs=tuple(chosen), comparisons=tuple(pairs))


def _flatten(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as text by dotted name, without those that every run has its own of."""
    values: dict[str, Any] = {}
    for name, value in settings.items():
        values |= {f"{name}.{key}": entry for key, entry in value.items()} if isinstance(value, dict) else {name: value}
    if "init_from" in values:
        # Each seed goes on from another run: that it is pre-trained makes the method, not from which run.
        values["init_from"] = values["init_from"] is not None
    return {name: json.dumps(value) for name, value in values.items() if name not in _SAME_METHOD}


def _changing(settings: Sequence[Mapping[str, str]]) -> set[str]:
    """Names of settings that are not the same in all of several runs."""
    names = {name for values in settings for name in values}
    return {name for name in names if len({values.get(name, _absent(name)) for values in settings} - {None}) > 1}


def _absent(name: str) -> str | None:
    """What it says that a setting is not there: a parameter has its default, a field is younger than the run."""
    return "default" if "." in name else None


def _describe(values: Mapping[str, str], names: Iterable[str]) -> str:
    found = {name.rpartition(".")[2]: values.get(name, _absent(name)) for name in sorted(names)}
    shown = {name: value.strip('"') for name, value in found.items() if value is not None}
    return ", ".join(f"{name}={value}" for name, value in shown.items())
