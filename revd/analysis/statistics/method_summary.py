"""Comparisons of methods as tables."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from revd.analysis.reading.runs import Run
from revd.analysis.statistics.curves import WINDOW, Interval, interval, steps_to_reach
from revd.analysis.statistics.scores import final_score, scored
from revd.episodes import FINAL_RETURN


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How one method did over its seeds. `reached_by` is over those seeds that reached the threshold."""

    method: str
    seeds: int
    reached: int
    reached_by: Interval | None
    final: Interval


def group_by_method(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs of the same method together, methods in the order in which they first appear."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.method, []).append(run)
    return groups


def summarize(runs: Sequence[Run], *, threshold: float, window: int = WINDOW) -> list[Summary]:
    """One summary for each method, over its runs that have a final return."""
    groups = group_by_method(scored(runs))
    return [_summary(method, group, threshold, window) for method, group in groups.items()]


def summary_table(summaries: Sequence[Summary], *, threshold: float, window: int = WINDOW) -> Table:
    """The summaries for a terminal, with what the brackets mean."""
    caption = (
        f"Final return: {FINAL_RETURN}. Brackets: smallest and largest over seeds, which is a range and not a "
        f"confidence interval. Steps: until the mean of the last {window} episodes reached it, over the seeds that did."
    )
    table = Table(caption=caption, caption_justify="left", header_style="bold")
    table.add_column("method", no_wrap=True)
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


def _summary(method: str, runs: Sequence[Run], threshold: float, window: int) -> Summary:
    found = [steps_to_reach(run.episodes, threshold, window=window) for run in runs]
    reached = [steps for steps in found if steps is not None]
    return Summary(
        method=method,
        seeds=len(runs),
        reached=len(reached),
        reached_by=interval(reached) if reached else None,
        final=interval([final_score(run) for run in runs]),
    )


def _bracketed(values: Interval, *, decimals: int) -> str:
    mean, low, high = (f"{value:,.{decimals}f}" for value in (values.mean, values.low, values.high))
    return f"{mean} [{low}, {high}]"
