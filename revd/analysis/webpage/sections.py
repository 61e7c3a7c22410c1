"""What the sections of a page show: the tables of the Markdown report, with bars, and the runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from revd.analysis.drawing.captions import comparison_caption
from revd.analysis.reading.commands import repeat_command
from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.aggregate import Estimate
from revd.analysis.statistics.curves import WINDOW
from revd.analysis.statistics.figure_data import FigureData, ReportData
from revd.analysis.statistics.grouping import setting
from revd.analysis.statistics.scores import final_score
from revd.analysis.statistics.time_use import TimeUse, time_use
from revd.analysis.writing.formats import MISSING, numbers
from revd.analysis.writing.return_tables import TaskTable, task_tables
from revd.analysis.writing.tables import by_method

#: The columns before the bars in a table of results: method, seeds, final return and its interval.
COLUMNS_BEFORE_BARS = 4
# Fraction of a bar's width to both sides of the outermost intervals.
_MARGIN = 0.06


@dataclass(frozen=True, kw_only=True)
class Bar:
    """An interval and its value, all in per cent of the width; an interval of one run is just the value."""

    low: float
    high: float
    value: float


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """A method in a table of results: its cells, and its mean final return as a bar."""

    method: str
    cells: tuple[str, ...]
    bar: Bar | None


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results of all methods on one task and setting."""

    task: str
    columns: tuple[str, ...]
    rows: tuple[ResultRow, ...]


@dataclass(frozen=True, kw_only=True)
class EstimateRow:
    """A number of the comparison over tasks."""

    method: str
    value: str
    interval: str
    bar: Bar
    other: str = ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The comparison of methods over the tasks of one figure."""

    title: str
    caption: str
    group: str
    means: tuple[EstimateRow, ...]
    improvements: tuple[EstimateRow, ...]


@dataclass(frozen=True, kw_only=True)
class TimeRow:
    """Where the time of one method on one task went."""

    task: str
    method: str
    use: TimeUse


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One run, and the command that repeats it."""

    task: str
    method: str
    seed: int
    steps: str
    state: str
    final: str
    hours: str
    directory: Path
    command: str | None


def page_title(data: ReportData) -> str:
    """The methods and tasks by name if they are few, else by number."""
    methods = _few(dict.fromkeys(run.label for run in data.all_runs), "methods")
    tasks = _few(dict.fromkeys(setting(run) for run in data.all_runs), "tasks")
    return f"{methods} on {tasks}"


def results(data: ReportData, *, window: int = WINDOW) -> list[Results]:
    """The results on each task; the bars of a task have one scale."""
    return [_results(found) for found in task_tables(data.runs, window=window)]


def comparisons(data: ReportData) -> list[Comparison]:
    """The comparisons over tasks of all figures that have one."""
    return [found for index, figure in enumerate(data.figures) if (found := _comparison(figure, f"profile-{index}"))]


def time_rows(data: ReportData) -> list[TimeRow]:
    """Where the time went, for each method on each task with finished runs."""
    return [
        TimeRow(task=task, method=method, use=use)
        for (task, method), runs in by_method(data.runs).items()
        if (use := time_use(runs)) is not None
    ]


def run_rows(runs: Sequence[RecordedRun]) -> list[RunRow]:
    """All runs."""
    return [_run_row(run) for run in runs]


def _results(found: TaskTable) -> Results:
    bars = _bars([result.final for result in found.results])
    rows = [
        ResultRow(method=result.method, cells=cells, bar=bar)
        for result, cells, bar in zip(found.results, found.table.rows, bars, strict=True)
    ]
    return Results(task=found.task, columns=found.table.columns, rows=tuple(rows))


def _comparison(figure: FigureData, group: str) -> Comparison | None:
    found = figure.aggregate
    if found is None:
        return None
    return Comparison(
        title=figure.plan.title,
        caption=comparison_caption(found),
        group=group,
        means=tuple(_estimate_row(method, estimate) for method, estimate in found.iqm.items()),
        improvements=tuple(
            _estimate_row(better, estimate, other=worse) for (better, worse), estimate in found.improvements.items()
        ),
    )


def _estimate_row(method: str, found: Estimate, *, other: str = "") -> EstimateRow:
    value, interval = f"{found.value:.2f}", f"({found.low:.2f} to {found.high:.2f})"
    return EstimateRow(method=method, value=value, interval=interval, bar=_bar(found, 0.0, 1.0), other=other)


def _bars(estimates: Sequence[Estimate | None]) -> list[Bar | None]:
    """Bars on one scale that all of them fit into."""
    known = [estimate for estimate in estimates if estimate is not None]
    ends = [end for found in known for end in (found.low, found.value, found.high) if np.isfinite(end)]
    if not ends:
        return [None for _ in estimates]
    # Relative to the value if there is only one: next to a huge one, a difference of 1 would be lost.
    margin = _MARGIN * (max(ends) - min(ends) or abs(max(ends)) or 1.0)
    first, last = min(ends) - margin, max(ends) + margin
    return [None if found is None else _bar(found, first, last) for found in estimates]


def _bar(found: Estimate, first: float, last: float) -> Bar:
    low, high = ((found.value if np.isnan(end) else end) for end in (found.low, found.high))
    low, high, value = (100 * (end - first) / (last - first) for end in (low, high, found.value))
    return Bar(low=low, high=high, value=value)


def _run_row(run: RecordedRun) -> RunRow:
    final, seconds = final_score(run), sum(run.seconds.values())
    steps = f"{run.total_steps:,}" if run.finished else f"{run.reached:,} of {run.total_steps:,}"
    return RunRow(
        task=setting(run),
        method=run.label,
        seed=run.seed,
        steps=steps,
        state="damaged" if run.damage is not None else run.state,
        final=numbers(final)[0] if np.isfinite(final) else MISSING,
        hours=f"{seconds / 3600:.2f}" if seconds else MISSING,
        directory=run.directory,
        command=repeat_command(run.origin.get("repeat")),
    )


def _few(names: Iterable[str], many: str) -> str:
    *others, last = names
    if len(others) > 2:
        return f"{len(others) + 1} {many}"
    return f"{', '.join(others)} and {last}" if others else last
