"""How good a run is by the task's own return, and how good it was after each tenth of its steps.

A run's steps are divided into ten equal parts. The return of a part is the mean over the episodes that ended in it, or
that of the part before if none did. What a part is worth is fixed once the run is past it, so that it does not matter
when one looks.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from revd.experiments.rundir import EPISODE_COLUMNS, STEPS_COLUMN, RunDirectory
from revd.experiments.tuning.config import Metric

PARTS = 10

_RETURN = EPISODE_COLUMNS[1]


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


def part_returns(episodes: Sequence[tuple[float, float]], steps: int) -> list[float | None]:
    """The mean return of each part, from the steps at which episodes ended and their returns."""
    means: list[float | None] = []
    for after, until in pairwise(part * steps / PARTS for part in range(PARTS + 1)):
        within = [value for ended, value in episodes if after < ended <= until]
        means.append(fmean(within) if within else (means[-1] if means else None))
    return means


def _running_means(returns: Sequence[float | None]) -> list[float | None]:
    """The area under the curve so far, as its mean height."""
    known = [value for value in returns if value is not None]
    missing = len(returns) - len(known)
    return [None] * missing + [fmean(known[: count + 1]) for count in range(len(known))]


def _reached(directory: RunDirectory) -> int:
    status = directory.read_status()
    return 0 if status is None else status.steps


def _episodes(directory: RunDirectory) -> list[tuple[float, float]]:
    """Steps and returns of all episodes, without those whose return is no number."""
    if not directory.episodes.exists():
        return []
    # The last line may still be being written.
    lines = directory.episodes.read_text(errors="replace").rpartition("\n")[0].splitlines()
    rows = [(_number(row.get(STEPS_COLUMN)), _number(row.get(_RETURN))) for row in csv.DictReader(lines)]
    return [row for row in rows if math.isfinite(sum(row))]


def _number(cell: str | None) -> float:
    try:
        return float(cell or "nan")
    except ValueError:
        return math.nan
