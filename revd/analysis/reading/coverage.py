"""What run directories tell about the states that their trainings visited."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from revd.analysis.reading.runs import load_progress
from revd.arrays import Array
from revd.coverage.stages import Visits
from revd.coverage.state import read_visits
from revd.storage.run_files import PROGRESS, VISITS

_STEPS, _CELLS, _SHARE = "time/total_timesteps", "exploration/coverage", "exploration/coverage_share"


@dataclass(frozen=True, kw_only=True, eq=False)
class CoverageSeries:
    """The distinct cells `cells` (points,) that a training had visited after `steps` (points,).

    `share` is the last one's share of all cells; None if their number is not known.
    """

    steps: Array
    cells: Array
    share: float | None


def load_coverage(directory: Path) -> CoverageSeries | None:
    """Read how many cells a run had visited after each rollout; None if it did not count them."""
    progress = load_progress(directory / PROGRESS)
    if not {_STEPS, _CELLS} <= progress.keys():
        return None
    known = np.isfinite(progress[_STEPS]) & np.isfinite(progress[_CELLS])
    if not known.any():
        return None
    share = progress[_SHARE][known][-1] if _SHARE in progress else np.nan
    return CoverageSeries(
        steps=progress[_STEPS][known],
        cells=progress[_CELLS][known],
        share=float(share) if np.isfinite(share) else None,
    )


def load_visits(directory: Path) -> Visits | None:
    """Read the visits of a run's plane; None if it has none, a ValueError if the file is damaged."""
    path = directory / VISITS
    return read_visits(path).visits if path.exists() else None
