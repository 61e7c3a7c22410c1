"""Reading run directories."""

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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
class Run:
    """What one run directory says."""

    directory: Path
    task: str
    method: str
    seed: int
    total_steps: int
    state: str
    episodes: Episodes


def find_runs(root: Path) -> list[Run]:
    """All runs below a directory, ordered by task, method and seed."""
    runs = [load_run(path.parent) for path in root.rglob("config.json")]
    return sorted(runs, key=lambda run: (run.task, run.method, run.seed, run.directory))


def load_run(directory: Path) -> Run:
    """Read one run directory, finished or not."""
    try:
        config = json.loads((directory / "config.json").read_text())
        status = json.loads((directory / "status.json").read_text())
        return Run(
            directory=directory,
            task=config["task"],
            method=config["resolved"]["method"],
            seed=config["seed"],
            total_steps=config["steps"],
            state=status["state"],
            episodes=load_episodes(directory / "episodes.csv"),
        )
    except (FileNotFoundError, KeyError) as error:
        raise ValueError(f"{str(directory)!r} is not a complete run directory: {error}") from error


def load_episodes(path: Path) -> Episodes:
    """Read `episodes.csv`."""
    columns = _read_columns(path, only=("steps", "return"))
    return Episodes(steps=columns["steps"], returns=columns["return"])


def load_progress(path: Path) -> dict[str, Array]:
    """Read `progress.csv`, the logger's numbers: one array for each column, NaN where a cell is empty."""
    return _read_columns(path)


def _read_columns(path: Path, *, only: Iterable[str] | None = None) -> dict[str, Array]:
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
        names = list(only if only is not None else reader.fieldnames or ())
    return {name: np.array([_number(row[name]) for row in rows], dtype=np.float64) for name in names}


def _number(cell: str | None) -> float:
    return float(cell) if cell else float("nan")
