"""Reading `evaluations.csv`."""

import math
from dataclasses import dataclass
from pathlib import Path

from revd.storage.csv_file import read_csv
from revd.storage.run_files import EVALUATION_COLUMNS


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Mean and standard deviation of the deterministic policy's return over some episodes, after some steps."""

    steps: int
    mean: float
    std: float
    episodes: int


def last_evaluation(path: Path) -> Evaluation | None:
    """The last evaluation of a run; None if there is no complete one."""
    try:
        table = read_csv(path)
    except (OSError, ValueError):
        return None
    found = [_evaluation(dict(zip(table.columns, cells, strict=True))) for _, cells in table.rows if cells is not None]
    return next((evaluation for evaluation in reversed(found) if evaluation is not None), None)


def _evaluation(row: dict[str, str]) -> Evaluation | None:
    steps, mean, std, episodes = (_number(row.get(name, "")) for name in EVALUATION_COLUMNS)
    if not all(map(math.isfinite, (steps, mean, std, episodes))):
        return None
    return Evaluation(steps=int(steps), mean=mean, std=std, episodes=int(episodes))


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
