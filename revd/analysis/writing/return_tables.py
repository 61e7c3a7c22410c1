"""The tables of final returns in a report, one for each task, and who is ahead."""

from collections.abc import Sequence
from dataclasses import dataclass

from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.aggregate import CONFIDENCE, RESAMPLES
from revd.analysis.statistics.curves import WINDOW
from revd.analysis.statistics.grouping import group_by, setting
from revd.analysis.statistics.scores import JUDGED_SEEDS, MIN_SEEDS
from revd.analysis.statistics.task_results import TaskResult
from revd.analysis.writing.method_tables import TaskColumn, task_columns
from revd.analysis.writing.result_cells import final_cells, improvement_cell, reaching_cells
from revd.analysis.writing.tables import Table
from revd.episodes import FINAL_RETURN


@dataclass(frozen=True, kw_only=True)
class TaskTable:
    """The table of one task and setting; `column` has the numbers of its rows."""

    task: str
    table: Table
    column: TaskColumn

    @property
    def results(self) -> tuple[TaskResult, ...]:
        """The results of the methods, row by row."""
        return tuple(self.column.results.values())


def task_tables(runs: Sequence[RecordedRun], *, window: int = WINDOW) -> list[TaskTable]:
    """A table for each task and setting."""
    columns = task_columns(runs, window=window)
    return [
        TaskTable(task=task, table=_task_table(column), column=column)
        for column, task in zip(columns, group_by(runs, setting), strict=True)
    ]


def returns_explained(window: int = WINDOW) -> str:
    """What the columns of these tables mean."""
    return (
        f"Of finished runs that are not damaged: {FINAL_RETURN}, its mean over seeds with a {CONFIDENCE:.0%} bootstrap "
        f"interval ({RESAMPLES:,} resamples; at least {MIN_SEEDS} seeds). Steps: until the mean of the last {window} "
        "episodes reached the threshold; the median counts a run that never did as longer than all others. P: the "
        "probability that a run has a higher final return than one of the method without a bonus, with its interval. "
        f"Ahead, in bold, or behind: the whole interval of P lies above, or below, 0.5, with {JUDGED_SEEDS} seeds or "
        "more. Intervals of few seeds are too narrow, and of many methods some are ahead by chance."
    )


def verdicts(results: Sequence[TaskResult]) -> list[str]:
    """Which methods are ahead of the one without a bonus, and which are not; nothing if none can be compared."""
    compared = [result for result in results if result.improvement is not None]
    sentences = []
    for base in dict.fromkeys(result.base for result in compared):
        own = [result for result in compared if result.base == base]
        groups = {
            f"Ahead of {base}": [result.method for result in own if result.is_ahead],
            f"Not ahead of {base}, and not behind": [
                result.method for result in own if not result.is_ahead and not result.is_behind
            ],
            f"Behind {base}": [result.method for result in own if result.is_behind],
        }
        sentences.append(" ".join(f"{words}: {', '.join(methods)}." for words, methods in groups.items() if methods))
    return sentences


def _task_table(column: TaskColumn) -> Table:
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
        row += reaching_cells(result, column.steps[-1]) if threshold is not None else []
        row += [improvement_cell(result, base)] if base is not None else []
        rows.append(row)
    return Table.of(columns, rows, numbers=len(columns) - 1)
