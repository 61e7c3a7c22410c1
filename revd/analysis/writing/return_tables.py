"""The section of a report about final returns: all methods and tasks, then a table for each task."""

from collections.abc import Sequence

from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.aggregate import CONFIDENCE, RESAMPLES
from revd.analysis.statistics.curves import WINDOW
from revd.analysis.statistics.grouping import group_by
from revd.analysis.statistics.scores import MIN_SEEDS
from revd.analysis.statistics.task_results import TaskResult
from revd.analysis.writing.markdown import escape, table
from revd.analysis.writing.method_tables import TaskColumn, final_table, task_columns
from revd.analysis.writing.result_cells import final_cells, improvement_cell, reaching_cells
from revd.episodes import FINAL_RETURN


def return_tables(runs: Sequence[RecordedRun], *, window: int = WINDOW) -> list[str]:
    """What the columns mean, all tasks in one table, and one for each task and setting."""
    lines = ["## Final returns", "", _explanation(window), ""]
    columns = task_columns(runs, window=window)
    if len(columns) > 1:
        lines += ["### All tasks", "", *final_table(columns)]
    for column, task in zip(columns, group_by(runs, setting), strict=True):
        lines += [f"### {escape(task)}", "", *_task_table(column), *_verdict(list(column.results.values()))]
    return lines


def setting(run: RecordedRun) -> str:
    """The task of a run, and its probability of hidden rewards, if they were sparse."""
    return run.task if run.sparse is None else f"{run.task}, sparse {run.sparse:g}"


def _explanation(window: int) -> str:
    return (
        f"Of finished runs that are not damaged: {FINAL_RETURN}, its mean over seeds with a {CONFIDENCE:.0%} bootstrap "
        f"interval ({RESAMPLES:,} resamples; at least {MIN_SEEDS} seeds). Steps: until the mean of the last {window} "
        "episodes reached the threshold; the median counts a run that never did as longer than all others. P: the "
        "probability that a run has a higher final return than one of the method without a bonus, with its interval. "
        "Ahead, in bold, or behind: the whole interval of P lies above, or below, 0.5. Intervals of few seeds are too "
        "narrow, and of many methods some are ahead by chance."
    )


def _task_table(column: TaskColumn) -> list[str]:
    results, threshold = list(column.results.values()), column.threshold
    base = next((result.base for result in results if result.base is not None), None)
    columns = ["method", "seeds", "final return", f"{CONFIDENCE:.0%} interval"]
    if threshold is not None:
        columns += [f"reached {threshold:g}", f"steps to {threshold:g}, median"]
    if base is not None:
        columns.append(f"P(better than {base})")
    rows = []
    for result in results:
        row: list[object] = [result.method, result.seeds, *final_cells(result)]
        row += reaching_cells(result, column.steps) if threshold is not None else []
        row += [improvement_cell(result, base)] if base is not None else []
        rows.append(row)
    return table(columns, rows, numbers=len(columns) - 1)


def _verdict(results: Sequence[TaskResult]) -> list[str]:
    """Which methods are ahead of the one without a bonus, and which are not; nothing if none can be compared."""
    lines = []
    compared = [result for result in results if result.improvement is not None]
    for base in dict.fromkeys(result.base for result in compared):
        own = [result for result in compared if result.base == base]
        groups = {
            f"Ahead of {base}": [result.method for result in own if result.is_ahead],
            f"Not ahead of {base}, and not behind": [
                result.method for result in own if not result.is_ahead and not result.is_behind
            ],
            f"Behind {base}": [result.method for result in own if result.is_behind],
        }
        said = [f"{words}: {', '.join(methods)}." for words, methods in groups.items() if methods]
        lines += [escape(" ".join(said)), ""]
    return lines
