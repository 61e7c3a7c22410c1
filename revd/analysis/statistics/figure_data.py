"""What each figure shows, computed: from runs to numbers, with notes on all that a reader must know about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from revd.analysis.reading.grouping import Selection, distinguish, group_by, in_order, select
from revd.analysis.reading.runs import Run
from revd.analysis.reading.searches import Search, load_search, search_directory, trial_number
from revd.analysis.statistics.aggregate import Aggregate, aggregate, alone
from revd.analysis.statistics.curves import WINDOW, Curve, curve, seen_range, step_grid
from revd.analysis.statistics.scores import Limits, Score, score_limits, score_matrices, score_runs
from revd.episodes import PARTS, last_part

Curves = Mapping[str, Mapping[str, Curve]]


@dataclass(frozen=True, kw_only=True)
class Result:
    """The numbers of one figure: curves by task and method, final scores, and their comparison over tasks."""

    selection: Selection
    curves: Curves
    scores: tuple[Score, ...]
    aggregate: Aggregate | None
    notes: tuple[str, ...]

    def best_methods(self, most: int) -> list[str]:
        """So many of its methods, in its order: those with the best scores on average, and any others after them."""
        scores = {
            method: [entry.normalized for entry in self.scores if entry.method == method] for method in self.drawn
        }
        ranked = sorted(self.drawn, key=lambda method: -np.mean(scores[method]) if scores[method] else np.inf)
        return [method for method in self.drawn if method in ranked[:most]]

    @property
    def drawn(self) -> list[str]:
        """Labels of the methods that have a curve."""
        return [method for method in self.selection.methods if any(method in found for found in self.curves.values())]


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """A search, and the learning curves of its trials; None where no episode has ended."""

    search: Search
    curves: Result | None


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """
    Runs with their variants named, the results of all figures that can be made of them, and searches.

    The trials of a search are in none of the other results: the best of many is no fair sample of a method.
    """

    runs: tuple[Run, ...]
    results: tuple[Result, ...]
    searches: tuple[SearchResult, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def all_runs(self) -> tuple[Run, ...]:
        """Those of the trials too."""
        return (*self.runs, *(run for found in self.searches for run in found.search.runs))

    @property
    def methods(self) -> list[str]:
        """Labels of all methods."""
        return sorted({run.label for run in self.runs})


def analyse(runs: Sequence[Run], *, window: int = WINDOW) -> Analysis:
    """Everything there is to show about runs."""
    ordinary, searches, notes = _split(runs)
    named = in_order(distinguish(ordinary))
    limits = score_limits(named)
    results = [_result(selection, limits, window) for selection in select(named)]
    return Analysis(
        runs=tuple(named),
        results=tuple(result for result in results if any(result.curves.values())),
        searches=tuple(SearchResult(search=search, curves=_search_curves(search, window)) for search in searches),
        notes=tuple(notes),
    )


def _split(runs: Sequence[Run]) -> tuple[list[Run], list[Search], list[str]]:
    """Ordinary runs, the searches that the others are of, and which of those cannot be read."""
    ordinary, searches, notes = [], [], []
    for directory, group in group_by(runs, lambda run: search_directory(run.directory)).items():
        if directory is None:
            ordinary += group
            continue
        try:
            searches.append(load_search(directory, group))
        except ValueError as error:
            ordinary += group
            notes.append(f"{error}; its trials are shown like other runs")
    return ordinary, searches, notes


def _search_curves(search: Search, window: int) -> Result | None:
    """The learning curves of all trials, of which figures show the best."""
    runs = [replace(run, variant=f"trial {trial_number(run.directory)}") for run in search.runs]
    runs.sort(key=lambda run: (trial_number(run.directory) or 0, run.seed))
    name = f"Trials of the search {search.directory.resolve().name}"
    selection = Selection(name=name, title=name, runs=tuple(runs), comparisons=())
    curves = {task: _task_curves(selection, task, window) for task in selection.tasks}
    if not any(curves.values()):
        return None
    scores = tuple(score_runs(runs, score_limits(runs)))
    return Result(selection=selection, curves=curves, scores=scores, aggregate=None, notes=())


def drawable(run: Run) -> bool:
    """Whether a run is part of the curves: not if it failed or is damaged; if it is under way, as far as it is."""
    return run.state != "failed" and run.damage is None and len(run.episodes.returns) > 0


def _result(selection: Selection, limits: Limits, window: int) -> Result:
    curves = {task: _task_curves(selection, task, window) for task in selection.tasks}
    scores = tuple(score_runs(selection.runs, limits))
    matrices = score_matrices(scores, selection.methods)
    comparison = aggregate(matrices, selection.pairs(list(matrices.scores)))
    notes = [*_curve_notes(selection, curves), *(f"over tasks: {note}" for note in matrices.notes)]
    notes += _comparison_notes(selection, scores, comparison)
    return Result(
        selection=selection, curves=curves, scores=scores, aggregate=comparison, notes=tuple(dict.fromkeys(notes))
    )


def _task_curves(selection: Selection, task: str, window: int) -> dict[str, Curve]:
    """One curve for each method, all on one grid, each cut to what all of its runs have reached."""
    groups = {method: [run for run in selection.of(task, method) if drawable(run)] for method in selection.methods}
    groups = {method: runs for method, runs in groups.items() if runs}
    grid = step_grid(max((run.reached for runs in groups.values() for run in runs), default=0))
    limits = seen_range([run.episodes for runs in groups.values() for run in runs])
    curves = {
        method: curve(
            [run.episodes for run in runs],
            grid=grid,
            until=min(run.reached for run in runs),
            window=window,
            limits=limits,
        )
        for method, runs in groups.items()
    }
    return {method: found for method, found in curves.items() if len(found.steps)}


def _curve_notes(selection: Selection, curves: Curves) -> list[str]:
    notes = []
    for task in selection.tasks:
        for method in selection.methods:
            runs = selection.of(task, method)
            notes += [f"{_name(run)} {problem}" for run in runs if (problem := _problem(run))]
            drawn = [run for run in runs if drawable(run)]
            notes += [*_length_notes(task, method, drawn, method in curves[task]), *_repeated_seeds(drawn)]
    return notes


def _repeated_seeds(runs: Sequence[Run]) -> list[str]:
    return [
        f"{_name(group[0])} is there {len(group)} times, each counted as a run of its own: deviations and intervals "
        "are too small"
        for group in group_by(runs, lambda run: run.seed).values()
        if len(group) > 1
    ]


def _problem(run: Run) -> str | None:
    if run.state == "failed":
        return f"failed at {run.reached:,} of {run.total_steps:,} steps and is left out"
    if run.damage is not None:
        return f"is damaged and left out: {run.damage}"
    if not len(run.episodes.returns):
        return "has no finished episode and is left out"
    if not run.finished:
        return f"is unfinished ({run.state}), at {run.reached:,} of {run.total_steps:,} steps"
    part = last_part(run.episodes, run.total_steps)
    if part is None:
        return f"has no final return: no episode ended within its {run.total_steps:,} steps"
    if part < PARTS:
        return f"had no episode end in the last tenth of its steps: its final return is of tenth {part} of {PARTS}"
    return None


def _length_notes(task: str, method: str, runs: Sequence[Run], shown: bool) -> list[str]:
    reached = sorted({run.reached for run in runs})
    if not reached:
        return []
    if not shown:
        return [f"{method} on {task} has no curve: the episodes of its runs do not overlap for a point of the grid"]
    if len(reached) == 1:
        return []
    return [
        f"{method} on {task}: cut at {reached[0]:,} steps, which all its runs reached (the longest: {reached[-1]:,})"
    ]


def _comparison_notes(selection: Selection, scores: Sequence[Score], found: Aggregate | None) -> list[str]:
    notes = []
    for task in selection.tasks:
        lengths = sorted({score.steps for score in scores if score.task == task})
        if len(lengths) > 1:
            notes.append(f"{task}: final returns are of runs of different lengths, {_listed(lengths)} steps")
    if found is None:
        return [*notes, "over tasks: no interquartile mean, profile or probability of improvement can be drawn"]
    if len(found.tasks) == 1:
        notes.append(f"over tasks: there is one only, {found.tasks[0]}, so that nothing is said about others")
    if not found.improvements:
        notes.append(f"over tasks: no probability of improvement can be drawn, {alone(found)}")
    return notes


def _name(run: Run) -> str:
    return f"{run.label} on {run.task}, seed {run.seed},"


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(f"{number:,}" for number in numbers)
