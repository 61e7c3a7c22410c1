"""Summaries of methods as a table for a terminal."""

from collections.abc import Sequence

from rich.table import Table

from revd.analysis.statistics.curves import WINDOW, SeedRange
from revd.analysis.statistics.method_summary import MethodSummary
from revd.episodes import FINAL_RETURN


def summary_table(summaries: Sequence[MethodSummary], *, threshold: float | None, window: int = WINDOW) -> Table:
    """A row for each method, with a caption that explains the numbers; without a threshold, no steps to it."""
    caption = (
        f"Final return: {FINAL_RETURN}. Brackets: smallest and largest over seeds, which is a range and not a "
        "confidence interval."
    )
    if threshold is not None:
        caption += f" Steps: until the mean of the last {window} episodes reached it, over the seeds that did."
    table = Table(caption=caption, caption_justify="left", header_style="bold")
    table.add_column("method")
    reaching = ["seeds"] if threshold is None else [f"steps to reach {threshold:g}", "reached"]
    for name in (*reaching, "final return"):
        table.add_column(name, justify="right", no_wrap=True)
    largest = max((max(abs(one.final.low), abs(one.final.high)) for one in summaries), default=0.0)
    for summary in summaries:
        cells = [str(summary.seeds)] if threshold is None else _reaching_cells(summary)
        table.add_row(summary.method, *cells, _bracketed(summary.final, decimals=1 if largest >= 10 else 2))
    return table


def _reaching_cells(summary: MethodSummary) -> list[str]:
    steps = "never" if summary.reached_by is None else _bracketed(summary.reached_by, decimals=0)
    return [steps, f"{summary.reached} of {summary.seeds}"]


def _bracketed(values: SeedRange, *, decimals: int) -> str:
    mean, low, high = (f"{value:,.{decimals}f}" for value in (values.mean, values.low, values.high))
    return f"{mean} [{low}, {high}]"
