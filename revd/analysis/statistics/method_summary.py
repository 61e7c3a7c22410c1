"""Summaries of methods over their seeds: final return, and steps until a threshold is reached."""

from collections.abc import Sequence
from dataclasses import dataclass

from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.curves import WINDOW, SeedRange, seed_range, steps_to_reach
from revd.analysis.statistics.grouping import group_by
from revd.analysis.statistics.scores import final_score, runs_with_score


@dataclass(frozen=True, kw_only=True)
class MethodSummary:
    """Results of one method over its seeds.

    `reached_by` is over the seeds that reached the threshold; None if none did, or if there is no threshold.
    """

    method: str
    seeds: int
    reached: int
    reached_by: SeedRange | None
    final: SeedRange


def summarize(runs: Sequence[RecordedRun], *, threshold: float | None, window: int = WINDOW) -> list[MethodSummary]:
    """Summarise each method over its runs that have a final return."""
    groups = group_by(runs_with_score(runs), lambda run: run.label)
    return [_summarize_method(method, group, threshold, window) for method, group in groups.items()]


def _summarize_method(method: str, runs: Sequence[RecordedRun], threshold: float | None, window: int) -> MethodSummary:
    reached = [] if threshold is None else _steps_of_those_that_reached(runs, threshold, window)
    return MethodSummary(
        method=method,
        seeds=len(runs),
        reached=len(reached),
        reached_by=seed_range(reached) if reached else None,
        final=seed_range([final_score(run) for run in runs]),
    )


def _steps_of_those_that_reached(runs: Sequence[RecordedRun], threshold: float, window: int) -> list[float]:
    found = [steps_to_reach(run.episodes, threshold, window=window) for run in runs]
    return [steps for steps in found if steps is not None]
