"""The figures that can be made of some runs, with their methods and runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.grouping import FAMILY_TITLES, label_variant, setting_order, sort_runs, task_family

#: Pairs of methods (better, worse): a figure estimates how probably a run of the first beats one of the second.
MethodPairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class MethodComparison:
    """The methods that one figure compares, and the pairs for its probabilities of improvement."""

    name: str
    title: str
    methods: tuple[str, ...]
    pairs: MethodPairs
    sparse: bool = False


_WITH_BENCHMARKS = ("PPO", "PPO+REVD", "PPO+RE3", "PPO+RIDE")
_REVD_AGAINST_BENCHMARKS = tuple(("PPO+REVD", other) for other in ("PPO", "PPO+RE3", "PPO+RIDE"))

#: In the order of the paper's figures, which show these three for Atari and the same three for PyBullet.
PAPER_COMPARISONS = (
    MethodComparison(
        name="algorithms",
        title="PPO and A2C with and without REVD",
        methods=("PPO", "PPO+REVD", "A2C", "A2C+REVD"),
        pairs=(("PPO+REVD", "PPO"), ("A2C+REVD", "A2C")),
    ),
    MethodComparison(
        name="rewards",
        title="PPO with different exploration rewards",
        methods=_WITH_BENCHMARKS,
        pairs=_REVD_AGAINST_BENCHMARKS,
    ),
    MethodComparison(
        name="sparse",
        title="PPO with different exploration rewards",
        methods=_WITH_BENCHMARKS,
        pairs=_REVD_AGAINST_BENCHMARKS,
        sparse=True,
    ),
)


@dataclass(frozen=True, kw_only=True)
class FigurePlan:
    """The runs of one figure, and the pairs of labels that it compares."""

    name: str
    title: str
    runs: tuple[RecordedRun, ...]
    pairs: MethodPairs

    @property
    def tasks(self) -> list[str]:
        """Its tasks, one panel each."""
        return sorted({run.task for run in self.runs})

    @property
    def methods(self) -> list[str]:
        """Labels of its methods, in the figure's order."""
        return list(dict.fromkeys(run.label for run in self.runs))

    def runs_of(self, task: str, method: str) -> list[RecordedRun]:
        """Runs of one method on one task."""
        return [run for run in self.runs if (run.task, run.label) == (task, method)]

    def compared_pairs(self, labels: Sequence[str]) -> MethodPairs:
        """Pairs among some of its methods; at least one if there are two methods.

        First come the figure's own pairs, then every other method with a bonus against its algorithm without one,
        then every method that is still in no pair against the first method without a bonus.
        """
        methods = {run.label: run.method for run in self.runs}
        found = [pair for pair in self.pairs if set(pair) <= set(labels)]
        plain = [label for label in labels if "+" not in methods[label]]
        reference = next(iter(plain or labels), "")
        for label in labels:
            own = [base for base in plain if methods[base] == methods[label].partition("+")[0]]
            # Among several variants without a bonus, prefer the one with the same settings.
            bases = [base for base in own if label_variant(base) == label_variant(label)] or own or [reference]
            paired = any(label == better and worse in plain for better, worse in found) or (bases[0], label) in found
            if label not in plain and not paired:
                found += [(label, bases[0])]
        unpaired = [label for label in labels if not any(label in pair for pair in found)]
        others = plain if reference in unpaired else unpaired
        found += [(label, reference) for label in others]
        return tuple((better, worse) for better, worse in found if better != worse)


def plan_figures(runs: Sequence[RecordedRun]) -> list[FigurePlan]:
    """Plan the paper's figures for which there are runs.

    A figure of all methods is added if some are in none of the paper's figures.
    """
    plans = []
    for family, sparse in _settings(runs):
        selected = [run for run in runs if task_family(run.task) == family and run.sparse == sparse]
        paper = [comparison for comparison in PAPER_COMPARISONS if comparison.sparse == (sparse is not None)]
        everything = _all_methods(selected, paper)
        shown = [*_distinct_comparisons(paper, selected, complete=bool(everything)), *everything]
        plans += [_plan(family, sparse, comparison, selected) for comparison in shown]
    return plans


def plan_overall(runs: Sequence[RecordedRun]) -> FigurePlan | None:
    """Plan a comparison over the tasks of all families; None for one family, or if a task has several settings."""
    tasks = {(run.task, run.sparse) for run in runs}
    families = {task_family(task) for task, _ in tasks}
    if len(families) < 2 or len(tasks) > len({task for task, _ in tasks}):
        return None
    return FigurePlan(name="overall", title="All families of tasks", runs=tuple(runs), pairs=())


def _settings(runs: Iterable[RecordedRun]) -> list[tuple[str, float | None]]:
    return sorted({(task_family(run.task), run.sparse) for run in runs}, key=lambda setting: setting_order(*setting))


def _distinct_comparisons(
    comparisons: Sequence[MethodComparison], runs: Sequence[RecordedRun], *, complete: bool
) -> list[MethodComparison]:
    """Comparisons for which there are runs, without those that only repeat a part of another one.

    If there is a figure of all methods, they repeat a part of it, unless all their methods are there (`complete`).
    """
    present = {run.method for run in runs}
    shown = [present & set(comparison.methods) for comparison in comparisons]
    return [
        comparison
        for index, comparison in enumerate(comparisons)
        if shown[index]
        and (len(shown[index]) == len(comparison.methods) or not complete)
        and not any(shown[index] < other for other in shown)
        and shown[index] not in shown[:index]
    ]


def _all_methods(runs: Sequence[RecordedRun], comparisons: Sequence[MethodComparison]) -> list[MethodComparison]:
    """One comparison of all methods, if some of them are in none of `comparisons`."""
    present = list(dict.fromkeys(run.method for run in sort_runs(runs)))
    if set(present) <= {method for comparison in comparisons for method in comparison.methods}:
        return []
    pairs = tuple((method, plain) for method in present if (plain := method.partition("+")[0]) != method)
    name = "sparse-all" if any(comparison.sparse for comparison in comparisons) else "all"
    return [MethodComparison(name=name, title="all methods", methods=tuple(present), pairs=pairs)]


def _plan(family: str, sparse: float | None, comparison: MethodComparison, runs: Sequence[RecordedRun]) -> FigurePlan:
    chosen = [run for run in runs if run.method in comparison.methods]
    chosen.sort(key=lambda run: (comparison.methods.index(run.method), run.variant, run.task, run.seed))
    labels = {run.label: run.method for run in chosen}
    pairs = [
        (better, worse)
        for pair in comparison.pairs
        for better in labels
        for worse in labels
        if (labels[better], labels[worse]) == pair
    ]
    missing = set(comparison.methods) - set(labels.values())
    title = f"{FAMILY_TITLES[family]}: {', '.join(dict.fromkeys(labels.values())) if missing else comparison.title}"
    name = f"{family}-{comparison.name}"
    if sparse is not None:
        name, title = f"{name}-{sparse:g}", f"{title} (rewards zeroed with probability {sparse:g})"
    return FigurePlan(name=name, title=title, runs=tuple(chosen), pairs=tuple(pairs))
