"""
Finished episodes: reading `episodes.csv`, and the final return, the one number that a run is judged by.

The steps that were asked for are divided into ten equal parts. The return of a part is the mean over the episodes that
ended in it, or that of the part before if none did. The final return is that of the last part. What ends in the last
rollout beyond those steps does not count: some algorithms go further beyond them than others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from revd.storage.csv_file import read_csv
from revd.storage.run_files import EPISODE_COLUMNS

PARTS = 10
#: What the final return is, for captions of tables and figures.
FINAL_RETURN = "mean over the episodes that ended in the last tenth of the steps asked for"

Array = NDArray[np.float64]

_STEPS, _RETURN, _LENGTH, _ENV = EPISODE_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """Finished episodes in the order in which they ended: the steps taken by then, the task's own return."""

    steps: Array
    returns: Array

    def __post_init__(self) -> None:
        if self.steps.ndim != 1 or self.steps.shape != self.returns.shape:
            raise ValueError(f"steps and returns must be (n,) alike, got {self.steps.shape}, {self.returns.shape}")
        if np.any(np.diff(self.steps) < 0):
            raise ValueError("steps must not decrease: episodes are listed in the order in which they ended")


@dataclass(frozen=True, kw_only=True)
class EpisodeFile:
    """
    What `episodes.csv` says, and what is wrong with it.

    Attributes:
        episodes: The episodes of its good rows.
        lengths: Steps of each in its own environment, NaN where that is not told.
        envs: The environment of each, NaN where that is not told.
        lines: The line of each.
        faults: What is wrong with other lines.
        is_cut: Whether the last line has no end: it is still being written, or was cut off.
    """

    episodes: Episodes
    lengths: Array
    envs: Array
    lines: Sequence[int]
    faults: Sequence[str] = ()
    is_cut: bool = False


NO_EPISODES = EpisodeFile(
    episodes=Episodes(steps=np.empty(0), returns=np.empty(0)), lengths=np.empty(0), envs=np.empty(0), lines=()
)


def final_return(episodes: Episodes, steps: int) -> float | None:
    """The final return of a run of `steps`; None if no episode ended in them. This module says what that is."""
    return part_returns(episodes, steps)[-1]


def part_returns(episodes: Episodes, steps: int) -> list[float | None]:
    """The return of each part of a run of `steps`; None before the first episode."""
    means: list[float | None] = []
    for first, last in pairwise(np.searchsorted(episodes.steps, _ends_of_parts(steps), side="right")):
        before = means[-1] if means else None
        means.append(float(np.mean(episodes.returns[first:last])) if last > first else before)
    return means


def last_part(episodes: Episodes, steps: int) -> int | None:
    """The number, from 1, of the part whose episodes make the final return; None without any."""
    ends = np.searchsorted(episodes.steps, _ends_of_parts(steps), side="right")
    filled = np.flatnonzero(np.diff(ends))
    return int(filled[-1]) + 1 if len(filled) else None


def read_episodes(path: Path) -> EpisodeFile:
    """Read `episodes.csv`; none without the file. A ValueError for what is no table of episodes at all."""
    if not path.exists():
        return NO_EPISODES
    table = read_csv(path)
    if not table.columns and not table.rows:
        # A file without even a header is one that was just begun.
        return replace(NO_EPISODES, is_cut=table.is_cut)
    for name in (_STEPS, _RETURN):
        if name not in table.columns:
            raise ValueError(f"{path.name} has no column {name!r} in its first line")
    rows: list[tuple[int, Mapping[str, float]]] = []
    faults = []
    for line, cells in table.rows:
        row = None if cells is None else dict(zip(table.columns, map(_number, cells), strict=True))
        last = rows[-1][1][_STEPS] if rows else 0.0
        if row is None:
            faults.append(f"line {line} is no row of {len(table.columns)} values")
        elif wrong := [name for name in EPISODE_COLUMNS if not math.isfinite(row.get(name, 0.0))]:
            faults.append(f"line {line} has no finite number as {' and '.join(wrong)}")
        elif row[_STEPS] < last:
            faults.append(f"line {line} goes back from {last:,.0f} steps to {row[_STEPS]:,.0f}")
        else:
            rows.append((line, row))
    return EpisodeFile(
        episodes=_episodes([(row[_STEPS], row[_RETURN]) for _, row in rows]),
        lengths=np.array([row.get(_LENGTH, math.nan) for _, row in rows], dtype=np.float64),
        envs=np.array([row.get(_ENV, math.nan) for _, row in rows], dtype=np.float64),
        lines=[line for line, _ in rows],
        faults=faults,
        is_cut=table.is_cut,
    )


def _episodes(rows: Sequence[tuple[float, float]]) -> Episodes:
    table = np.array(rows, dtype=np.float64).reshape(-1, 2)
    return Episodes(steps=table[:, 0], returns=table[:, 1])


def _ends_of_parts(steps: int) -> Array:
    ends: Array = np.arange(PARTS + 1) * steps / PARTS
    return ends


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
