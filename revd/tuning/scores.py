"""How good a run is by the task's own return, and how good it was after each tenth of its steps.

What a tenth is worth says `revd.episodes`. It is fixed once the run is past it, so that it does not matter when one
looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from revd.episodes import NO_EPISODES, PARTS, Episodes, part_returns, read_episodes
from revd.runs.directory import RunDirectory
from revd.tuning.config import Metric


def run_scores(directory: RunDirectory, steps: int, metric: Metric) -> list[float | None]:
    """The score of a run of `steps` after each part that it is past; None before its first episode has ended."""
    # Asked before and after: episodes that ended within the steps of both answers are in the file for certain, even if
    # a new session takes the file back to its checkpoint just now.
    before = _reached(directory)
    returns = part_returns(_episodes(directory), steps)
    past = parts_past(min(before, _reached(directory)), steps)
    return returns[:past] if metric == "final" else _running_means(returns[:past])


def parts_past(reached: int, steps: int) -> int:
    """How many parts a run of `steps` is past."""
    return min(reached * PARTS // steps, PARTS)


def trial_scores(runs: Sequence[Sequence[float | None]]) -> dict[int, float]:
    """The score of a trial after each of its parts, numbered from 1, from those of its runs.

    First come the parts of its first run, then those of the first two in the mean, and so on: it can be judged before
    its last run has begun, and trials are compared over equal seeds and equal steps, whatever runs at the same time. A
    part waits for those before it; one in which some run has seen no episode end has no score.
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
    """The area under the curve so far, as its mean height."""
    known = [value for value in returns if value is not None]
    missing = len(returns) - len(known)
    return [None] * missing + [fmean(known[: count + 1]) for count in range(len(known))]


def _reached(directory: RunDirectory) -> int:
    status = directory.read_status()
    return 0 if status is None else status.steps


def _episodes(directory: RunDirectory) -> Episodes:
    """All episodes of good rows; none where the file is no table of them, which leaves the trial without a score."""
    try:
        return read_episodes(directory.episodes).episodes
    except ValueError:
        return NO_EPISODES.episodes
