"""The tables of final returns in a report, one for each task."""

import math
from collections.abc import Sequence

from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.aggregate import CONFIDENCE, RESAMPLES, Estimate
from revd.analysis.statistics.curves import WINDOW
from revd.analysis.statistics.grouping import group_by, setting
from revd.analysis.statistics.scores import MIN_SEEDS
from revd.analysis.statistics.task_results import TaskResult, task_results
from revd.analysis.statistics.thresholds import THRESHOLDS
from revd.analysis.writing.markdown import MISSING, escape, numbers, table
from revd.episodes import FINAL_RETURN


def return_tables(runs: Sequence[RecordedRun], *, window: int = WINDOW) -> list[str]:
    """A table for each task and setting, and before them what the columns mean."""
    lines = ["## Final returns", "", _explanation(window), ""]
    for task, group in group_by(runs, setting).items():
        threshold = THRESHOLDS.get(group[0].task)
        results = task_results(group, threshold=threshold, window=window)
        lines += [f"### {escape(task)}", "", *_task_table(results, threshold, steps=group[0].total_steps)]
    return lines


def _explanation(window: int) -> str:
    return (
        f"Of finished runs that are not damaged: {FINAL_RETURN}, its mean over seeds with a {CONFIDENCE:.0%} bootstrap "
        f"interval ({RESAMPLES:,} resamples; at least {MIN_SEEDS} seeds). Steps: until the mean of the last {window} "
        "episodes reached the threshold; the median counts a run that never did as longer than all others. P: the "
        "probability that a run has a higher final return than one of the method without a bonus, with its interval. "
        "Intervals of few seeds are too narrow."
    )


def _task_table(results: Sequence[TaskResult], threshold: float | None, *, steps: int) -> list[str]:
    base = next((result.base for result in results if result.base is not None), None)
    columns = ["method", "seeds", "final return", f"{CONFIDENCE:.0%} interval"]
    if threshold is not None:
        columns += [f"reached {threshold:g}", f"steps to {threshold:g}, median"]
    if base is not None:
        columns.append(f"P(better than {base})")
    rows = []
    for result in results:
        row: list[object] = [result.method, result.seeds, *_final_cells(result)]
        row += _reaching_cells(result, steps) if threshold is not None else []
        row += [_improvement_cell(result, base)] if base is not None else []
        rows.append(row)
    return table(columns, rows, numbers=len(columns) - 1)


def _final_cells(result: TaskResult) -> list[str]:
    if result.final is None:
        return [MISSING, MISSING]
    final = result.final
    if math.isnan(final.low):
        return [*numbers(final.value), MISSING]
    value, low, high = numbers(final.value, final.low, final.high)
    return [value, f"{low} to {high}"]


def _reaching_cells(result: TaskResult, steps: int) -> list[str]:
    found = result.reaching
    if found is None:
        return [MISSING, MISSING]
    median = f"{found.median:,.0f}" if math.isfinite(found.median) else f"more than {steps:,}"
    return [f"{found.count} of {result.seeds}", median]


def _improvement_cell(result: TaskResult, base: str | None) -> str:
    if result.improvement is None:
        return MISSING
    text = _probability(result.improvement)
    return text if result.base == base else f"{text} (than {result.base})"


def _probability(found: Estimate) -> str:
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"
