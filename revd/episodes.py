"""Finished episodes: reading `episodes.csv`, and the final return, by which runs are compared.

The requested steps are divided into ten equal parts. The return of a part is the mean over the episodes that ended in
it; if none did, it is the return of the part before. The final return is the return of the last part. Episodes that end
after the requested steps do not count, because algorithms differ in how far their last rollout exceeds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from revd.arrays import Array
from revd.storage.csv_file import CsvTable, read_csv
from revd.storage.run_files import EPISODE_COLUMNS

#: Equal parts of a run's steps.
PARTS = 10
#: Definition of the final return, for captions of tables and figures.
FINAL_RETURN = "mean over the episodes that ended in the last tenth of the steps asked for"

_STEPS, _RETURN, _LENGTH, _ENV = EPISODE_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Episodes:
    """Finished episodes in the order of their ends: the step of each end, and the task's return."""

    steps: Array
    returns: Array

    def __post_init__(self) -> None:
        if self.steps.ndim != 1 or self.steps.shape != self.returns.shape:
            raise ValueError(f"steps and returns must be (n,) alike, got {self.steps.shape}, {self.returns.shape}")
        if np.any(np.diff(self.steps) < 0):
            raise ValueError("steps must not decrease: episodes are listed in the order in which they ended")


@dataclass(frozen=True, kw_only=True)
class EpisodeFile:
    """The content of `episodes.csv`, and its faults.

    Attributes:
        episodes: The episodes of valid rows.
        lengths: Length of each episode in steps of its environment; NaN if missing.
        envs: Index of the environment of each episode; NaN if missing.
        lines: Line number of each episode.
        faults: A message for each invalid line.
        is_cut: Whether the last line is incomplete: it is still being written, or was cut off.
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
    """The final return of a run of `steps`, as this module defines it; None if no episode ended in them."""
    return part_returns(episodes, steps)[-1]


def part_returns(episodes: Episodes, steps: int) -> list[float | None]:
    """The return of each part of a run of `steps`; None before the first episode."""
    means: list[float | None] = []
    for first, last in pairwise(np.searchsorted(episodes.steps, _ends_of_parts(steps), side="right")):
        before = means[-1] if means else None
        means.append(float(np.mean(episodes.returns[first:last])) if last > first else before)
    return means


def last_part(episodes: Episodes, steps: int) -> int | None:
    """The number, from 1, of the part whose episodes make the final return; None if there are none."""
    ends = np.searchsorted(episodes.steps, _ends_of_parts(steps), side="right")
    filled = np.flatnonzero(np.diff(ends))
    return int(filled[-1]) + 1 if len(filled) else None


def returns_of_last_part(episodes: Episodes, steps: int) -> Array:
    """The returns of the episodes whose mean is the final return; empty if there are none."""
    part = last_part(episodes, steps)
    if part is None:
        return np.empty(0)
    first, last = np.searchsorted(episodes.steps, _ends_of_parts(steps)[part - 1 : part + 1], side="right")
    return episodes.returns[first:last]


def read_episodes(path: Path) -> EpisodeFile:
    """Read `episodes.csv`; no episodes if it does not exist. A ValueError if it is no table of episodes."""
    if not path.exists():
        return NO_EPISODES
    table = read_csv(path)
    if not table.columns and not table.rows:
        # The file was just created and has no header yet.
        return replace(NO_EPISODES, is_cut=table.is_cut)
    for name in (_STEPS, _RETURN):
        if name not in table.columns:
            raise ValueError(f"{path.name} has no column {name!r} in its first line")
    rows, faults = _check_rows(table)
    return EpisodeFile(
        episodes=_episodes([(row[_STEPS], row[_RETURN]) for _, row in rows]),
        lengths=np.array([row.get(_LENGTH, math.nan) for _, row in rows], dtype=np.float64),
        envs=np.array([row.get(_ENV, math.nan) for _, row in rows], dtype=np.float64),
        lines=[line for line, _ in rows],
        faults=faults,
        is_cut=table.is_cut,
    )


def _check_rows(table: CsvTable) -> tuple[list[tuple[int, Mapping[str, float]]], list[str]]:
    """Valid rows with their line numbers, and a message for each invalid line."""
    rows: list[tuple[int, Mapping[str, float]]] = []
    faults = []
    for line, cells in table.rows:
        row = None if cells is None else dict(zip(table.columns, map(_number, cells), strict=True))
        last = rows[-1][1][_STEPS] if rows else 0.0
        if row is None:
            faults.append(f"line {line} is not a row of {len(table.columns)} values")
        elif wrong := [name for name in EPISODE_COLUMNS if not math.isfinite(row.get(name, 0.0))]:
            faults.append(f"line {line} has no finite number as {' and '.join(wrong)}")
        elif row[_STEPS] < last:
            faults.append(f"line {line} goes back from {last:,.0f} steps to {row[_STEPS]:,.0f}")
        else:
            rows.append((line, row))
    return rows, faults


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
