"""Notes on the numbers of a figure: runs that are left out, cut short or not comparable."""

from collections.abc import Sequence

from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.aggregate import Aggregate, why_no_pairs
from revd.analysis.statistics.curves import Curves
from revd.analysis.statistics.figure_plans import FigurePlan
from revd.analysis.statistics.grouping import group_by
from revd.analysis.statistics.scores import RunScore
from revd.episodes import PARTS, last_part


def curve_notes(plan: FigurePlan, curves: Curves) -> list[str]:
    """Notes on the runs behind the learning curves."""
    notes = []
    for task in plan.tasks:
        for method in plan.methods:
            runs = plan.runs_of(task, method)
            notes += [f"{_name(run)} {problem}" for run in runs if (problem := _problem(run))]
            drawn = [run for run in runs if run.is_drawable]
            notes += [*_length_notes(task, method, drawn, method in curves[task]), *_repeated_seeds(drawn)]
    return notes


def comparison_notes(plan: FigurePlan, scores: Sequence[RunScore], found: Aggregate | None) -> list[str]:
    """Notes on the comparison over tasks, or why there is none."""
    notes = []
    for task in plan.tasks:
        lengths = sorted({score.steps for score in scores if score.task == task})
        if len(lengths) > 1:
            notes.append(f"{task}: final returns are of runs of different lengths, {_join(lengths)} steps")
    if found is None:
        return [*notes, "over tasks: no interquartile mean, profile or probability of improvement can be drawn"]
    if len(found.tasks) == 1:
        notes.append(f"over tasks: there is only one task, {found.tasks[0]}; the numbers say nothing about others")
    if not found.improvements:
        notes.append(f"over tasks: no probability of improvement can be drawn, {why_no_pairs(found)}")
    return notes


def _problem(run: RecordedRun) -> str | None:
    """What is wrong with a run, as the end of a sentence; None if nothing is."""
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


def _length_notes(task: str, method: str, runs: Sequence[RecordedRun], has_curve: bool) -> list[str]:
    reached = sorted({run.reached for run in runs})
    if not reached:
        return []
    if not has_curve:
        return [f"{method} on {task} has no curve: the episodes of its runs do not overlap for a point of the grid"]
    if len(reached) == 1:
        return []
    return [
        f"{method} on {task}: cut at {reached[0]:,} steps, which all its runs reached (the longest: {reached[-1]:,})"
    ]


def _repeated_seeds(runs: Sequence[RecordedRun]) -> list[str]:
    return [
        f"{_name(group[0])} appears {len(group)} times, each counted as a run of its own: deviations and intervals "
        "are too small"
        for group in group_by(runs, lambda run: run.seed).values()
        if len(group) > 1
    ]


def _name(run: RecordedRun) -> str:
    return f"{run.label} on {run.task}, seed {run.seed},"


def _join(numbers: Sequence[int]) -> str:
    return " and ".join(f"{number:,}" for number in numbers)
