"""Scores of runs and trials after each tenth of their steps, by the task's own return.

`revd.episodes` defines the return of a tenth. It no longer changes once the run has passed the tenth, so it does not
matter when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from revd.episodes import NO_EPISODES, PARTS, Episodes, part_returns, read_episodes
from revd.runs.directory import RunDirectory
from revd.tuning.config import Metric


def run_scores(directory: RunDirectory, steps: int, metric: Metric) -> list[float | None]:
    """The score of a run of `steps` after each part that it has passed.

    None before the end of its first episode.
    """
    # The status is read before and after the episodes. Episodes within the steps of both are in the file for certain,
    # even if a new session resets it to a checkpoint in between.
    before = _reached(directory)
    returns = part_returns(_episodes(directory), steps)
    passed = passed_parts(min(before, _reached(directory)), steps)
    return returns[:passed] if metric == "final" else _running_means(returns[:passed])


def passed_parts(reached: int, steps: int) -> int:
    """The number of parts that a run of `steps` has passed."""
    return min(reached * PARTS // steps, PARTS)


def trial_scores(runs: Sequence[Sequence[float | None]]) -> dict[int, float]:
    """The score of a trial after each of its parts, numbered from 1, from the scores of its runs.

    First come the parts of the first run, then the means over the first two runs, and so on. So a trial can be pruned
    before its last run has begun, and trials are compared over equal seeds and equal steps. A part has to wait for the
    parts before it, and has no score if no episode has ended in one of the runs.
    """
    scores: dict[int, float] = {}
    for count in range(1, len(runs) + 1):
        for part in range(PARTS):
            if any(len(run) <= part for run in runs[:count]):
                return scores
            values = [value for run in runs[:count] if (value := run[part]) is not None]
            if len(values) == count:
                scores[(count - 1) * PARTS + part + 1] = fmean(values)
    return scores


def _running_means(returns: Sequence[float | None]) -> list[float | None]:
    """Means over the parts so far."""
    known = [value for value in returns if value is not None]
    missing = len(returns) - len(known)
    return [None] * missing + [fmean(known[: count + 1]) for count in range(len(known))]


def _reached(directory: RunDirectory) -> int:
    status = directory.read_status()
    return 0 if status is None else status.steps


def _episodes(directory: RunDirectory) -> Episodes:
    """All valid episodes; none if the file is not a table of episodes, so that the trial has no score."""
    try:
        return read_episodes(directory.episodes).episodes
    except ValueError:
        return NO_EPISODES.episodes
