"""Summaries of methods as a table for a terminal."""

from collections.abc import Sequence

from rich.table import Table

from revd.analysis.statistics.curves import WINDOW, SeedRange
from revd.analysis.statistics.method_summary import MethodSummary
from revd.episodes import FINAL_RETURN


def summary_table(summaries: Sequence[MethodSummary], *, threshold: float, window: int = WINDOW) -> Table:
    """A row for each method, with a caption that explains the numbers."""
    caption = (
        f"Final return: {FINAL_RETURN}. Brackets: smallest and largest over seeds, which is a range and not a "
        f"confidence interval. Steps: until the mean of the last {window} episodes reached it, over the seeds that did."
    )
    table = Table(caption=caption, caption_justify="left", header_style="bold")
    table.add_column("method")
    for name in (f"steps to reach {threshold:g}", "reached", "final return"):
        table.add_column(name, justify="right", no_wrap=True)
    for summary in summaries:
        table.add_row(
            summary.method,
            "never" if summary.reached_by is None else _bracketed(summary.reached_by, decimals=0),
            f"{summary.reached} of {summary.seeds}",
            _bracketed(summary.final, decimals=1),
        )
    return table


def _bracketed(values: SeedRange, *, decimals: int) -> str:
    mean, low, high = (f"{value:,.{decimals}f}" for value in (values.mean, values.low, values.high))
    return f"{mean} [{low}, {high}]"
