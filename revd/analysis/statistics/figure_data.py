"""The numbers of every figure, computed from runs, with notes on what readers must know about them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from revd.analysis.reading.runs import RecordedRun
from revd.analysis.reading.searches import Search, load_search, search_directory, trial_number
from revd.analysis.statistics.aggregate import Aggregate, aggregate
from revd.analysis.statistics.curves import WINDOW, Curve, Curves, curve, return_range, step_grid
from revd.analysis.statistics.figure_plans import FigurePlan, plan_figures, plan_overall
from revd.analysis.statistics.grouping import group_by, name_variants, sort_runs
from revd.analysis.statistics.notes import comparison_notes, curve_notes
from revd.analysis.statistics.scores import RunScore, ScoreLimits, score_limits, score_matrices, score_runs


@dataclass(frozen=True, kw_only=True)
class FigureData:
    """The numbers of one figure: curves by task and method, scores, and their comparison over tasks.

    The figure over all families of tasks has no curves.
    """

    plan: FigurePlan
    curves: Curves
    scores: tuple[RunScore, ...]
    aggregate: Aggregate | None
    notes: tuple[str, ...]

    @property
    def drawn(self) -> list[str]:
        """Labels of the methods that have a curve."""
        return [method for method in self.plan.methods if any(method in found for found in self.curves.values())]

    @property
    def plain(self) -> set[str]:
        """Labels of the methods without a bonus, with which others are compared."""
        return {run.label for run in self.plan.runs if "+" not in run.method}

    def best_methods(self, count: int) -> list[str]:
        """The `count` drawn methods with the best mean scores, those without a bonus first, in the figure's order."""
        scores = {
            method: [entry.normalized for entry in self.scores if entry.method == method] for method in self.drawn
        }
        means = {method: np.mean(found) if found else -np.inf for method, found in scores.items()}
        ranked = sorted(self.drawn, key=lambda method: (method not in self.plain, -means[method]))
        return [method for method in self.drawn if method in ranked[:count]]


@dataclass(frozen=True, kw_only=True)
class SearchData:
    """A search, and the learning curves of its trials; None if no episode has ended."""

    search: Search
    curves: FigureData | None


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """The data of a report: runs with named variants, figures and searches.

    The trials of a search are in no other figure: the best of many trials is no fair sample of a method.
    """

    runs: tuple[RecordedRun, ...]
    figures: tuple[FigureData, ...]
    searches: tuple[SearchData, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def all_runs(self) -> tuple[RecordedRun, ...]:
        """The runs, including those of the trials of searches."""
        return (*self.runs, *(run for found in self.searches for run in found.search.runs))

    @property
    def methods(self) -> list[str]:
        """Labels of all methods outside searches."""
        return sorted({run.label for run in self.runs})


def analyse_runs(runs: Sequence[RecordedRun], *, window: int = WINDOW) -> ReportData:
    """Compute the data of all figures that can be made of some runs."""
    ordinary, searches, notes = _split_searches(runs)
    named = sort_runs(name_variants(ordinary))
    limits = score_limits(named)
    figures = [_figure_data(plan, limits, window) for plan in plan_figures(named)]
    overall = _overall_data(plan_overall(named), limits)
    return ReportData(
        runs=tuple(named),
        figures=(*overall, *(figure for figure in figures if any(figure.curves.values()))),
        searches=tuple(SearchData(search=search, curves=_search_curves(search, window)) for search in searches),
        notes=tuple(notes),
    )


def _split_searches(runs: Sequence[RecordedRun]) -> tuple[list[RecordedRun], list[Search], list[str]]:
    """Separate the runs of searches from ordinary ones, with a note for each search that cannot be read."""
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


def _search_curves(search: Search, window: int) -> FigureData | None:
    """The learning curves of all trials."""
    runs = [replace(run, variant=f"trial {trial_number(run.directory)}") for run in search.runs]
    runs.sort(key=lambda run: (trial_number(run.directory) or 0, run.seed))
    name = f"Trials of the search {search.directory.resolve().name}"
    plan = FigurePlan(name=name, title=name, runs=tuple(runs), pairs=())
    curves = {task: _task_curves(plan, task, window) for task in plan.tasks}
    if not any(curves.values()):
        return None
    scores = tuple(score_runs(runs, score_limits(runs)))
    return FigureData(plan=plan, curves=curves, scores=scores, aggregate=None, notes=())


def _figure_data(plan: FigurePlan, limits: ScoreLimits, window: int) -> FigureData:
    curves = {task: _task_curves(plan, task, window) for task in plan.tasks}
    return _compare(plan, limits, curves, curve_notes(plan, curves))


def _overall_data(plan: FigurePlan | None, limits: ScoreLimits) -> list[FigureData]:
    """The comparison over the tasks of all families, if there is one. Notes on runs are those of the other figures."""
    found = [] if plan is None else [_compare(plan, limits, {}, [])]
    return [data for data in found if data.aggregate is not None]


def _compare(plan: FigurePlan, limits: ScoreLimits, curves: Curves, notes: Sequence[str]) -> FigureData:
    """Compare the methods of a figure over its tasks."""
    scores = tuple(score_runs(plan.runs, limits))
    matrices = score_matrices(scores, plan.methods)
    comparison = aggregate(matrices, plan.compared_pairs(list(matrices.scores)))
    found = [*notes, *(f"over tasks: {note}" for note in matrices.notes), *comparison_notes(plan, scores, comparison)]
    return FigureData(plan=plan, curves=curves, scores=scores, aggregate=comparison, notes=tuple(dict.fromkeys(found)))


def _task_curves(plan: FigurePlan, task: str, window: int) -> dict[str, Curve]:
    """One curve for each method, all on one grid; a curve ends where the shortest of its runs does."""
    groups = {method: [run for run in plan.runs_of(task, method) if run.is_drawable] for method in plan.methods}
    groups = {method: runs for method, runs in groups.items() if runs}
    grid = step_grid(max((run.reached for runs in groups.values() for run in runs), default=0))
    limits = return_range([run.episodes for runs in groups.values() for run in runs])
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
