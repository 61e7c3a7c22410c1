"""What each figure shows, computed: from runs to numbers, with notes on all that a reader must know about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from revd.analysis.aggregate import Aggregate, aggregate, alone
from revd.analysis.curves import WINDOW, Curve, curve, seen_range, step_grid
from revd.analysis.groups import Selection, distinguish, group_by, in_order, select
from revd.analysis.runs import Run
from revd.analysis.scores import Limits, Score, score_limits, score_matrices, score_runs
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


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """All runs with their variants named, and the results of all figures that can be made of them."""

    runs: tuple[Run, ...]
    results: tuple[Result, ...]

    @property
    def methods(self) -> list[str]:
        """Labels of all methods."""
        return sorted({run.label for run in self.runs})


def analyse(runs: Sequence[Run], *, window: int = WINDOW) -> Analysis:
    """Everything there is to show about runs."""
    named = in_order(distinguish(runs))
    limits = score_limits(named)
    results = [_result(selection, limits, window) for selection in select(named)]
    return Analysis(runs=tuple(named), results=tuple(result for result in results if any(result.curves.values())))


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
