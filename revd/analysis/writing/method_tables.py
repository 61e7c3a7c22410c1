"""Tables with a row for each method and a column for each task: final returns, and steps to a threshold."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from revd.analysis.drawing.captions import pretty_task
from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.aggregate import CONFIDENCE
from revd.analysis.statistics.curves import WINDOW
from revd.analysis.statistics.grouping import group_by
from revd.analysis.statistics.scores import JUDGED_SEEDS
from revd.analysis.statistics.task_results import TaskResult, task_results
from revd.analysis.statistics.thresholds import THRESHOLDS
from revd.analysis.writing.formats import MISSING
from revd.analysis.writing.markdown import table
from revd.analysis.writing.result_cells import final_cells, reaching_cells
from revd.analysis.writing.tables import Table

#: What the cells of the first table are.
EXPLANATION = (
    f"Final return: its mean over seeds, with a {CONFIDENCE:.0%} bootstrap interval. In bold: ahead of the algorithm "
    "without a bonus, that is, the interval of the probability of improvement lies above 0.5, with "
    f"{JUDGED_SEEDS} seeds or more."
)


@dataclass(frozen=True, kw_only=True)
class TaskColumn:
    """The results of all methods on one task."""

    task: str
    sparse: float | None
    steps: tuple[int, ...]
    results: dict[str, TaskResult]

    @property
    def title(self) -> str:
        """The task's name, and how many of its rewards were hidden."""
        name = pretty_task(self.task)
        return name if self.sparse is None else f"{name} with {self.sparse:.0%} of rewards hidden"

    @property
    def length(self) -> str:
        """The steps of its runs; of several numbers the smallest and the largest."""
        shortest, longest = f"{self.steps[0]:,}", f"{self.steps[-1]:,}"
        return longest if shortest == longest else f"{shortest} to {longest}"

    @property
    def threshold(self) -> float | None:
        """The return at which the task counts as solved."""
        return THRESHOLDS.get(self.task)


def task_columns(runs: Sequence[RecordedRun], *, window: int = WINDOW) -> list[TaskColumn]:
    """The results of labelled runs, task by task in their order."""
    return [
        TaskColumn(
            task=task,
            sparse=sparse,
            steps=tuple(sorted({run.total_steps for run in group})),
            results={
                found.method: found for found in task_results(group, threshold=THRESHOLDS.get(task), window=window)
            },
        )
        for (task, sparse), group in group_by(runs, lambda run: (run.task, run.sparse)).items()
    ]


def final_table(columns: Sequence[TaskColumn], methods: Collection[str] = ()) -> list[str]:
    """Final returns with their intervals; only of some methods if these are named."""
    return _table([f"{column.title}, {column.length} steps" for column in columns], columns, methods, _final_cell)


def steps_table(columns: Sequence[TaskColumn], methods: Collection[str] = ()) -> list[str]:
    """Median steps to the threshold, and how many seeds reached it; nothing if no task has a threshold."""
    solvable = [column for column in columns if column.threshold is not None]
    titles = [f"{column.title} to {column.threshold:g}" for column in solvable]
    return _table(titles, solvable, methods, _steps_cell) if solvable else []


def _table(
    titles: Sequence[str],
    columns: Sequence[TaskColumn],
    methods: Collection[str],
    cell: Callable[[TaskColumn, TaskResult], str],
) -> list[str]:
    known = list(dict.fromkeys(method for column in columns for method in column.results))
    rows = []
    for method in [name for name in known if name in methods or not methods]:
        found = [(column, column.results.get(method)) for column in columns]
        cells = [MISSING if result is None else cell(column, result) for column, result in found]
        rows.append((method, _seeds([result.seeds for _, result in found if result is not None]), *cells))
    return table(Table.of(("method", "seeds", *titles), rows, numbers=1 + len(columns)))


def _seeds(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _final_cell(column: TaskColumn, result: TaskResult) -> str:
    value, interval = final_cells(result)
    text = value if interval == MISSING else f"{value} ({interval})"
    return f"**{text}**" if result.is_ahead else text


def _steps_cell(column: TaskColumn, result: TaskResult) -> str:
    reached, median = reaching_cells(result, column.steps[-1])
    return median if reached == MISSING else f"{median} ({reached})"
