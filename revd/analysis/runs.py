"""Reading run directories, finished or not. The files' format is all that is known of their writer."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TOO_MANY = 2**63


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
    """Steps that were asked for."""
    reached: int
    """Steps up to which the run can be judged: all that were asked for, or as far as it has got."""
    state: str
    episodes: Episodes
    sparse: float | None = None
    """Probability with which a step's reward was hidden from the agent; None in the ordinary setting."""
    error: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """`config.json` without what was resolved from it."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """`run.json`: versions, commit and the command that repeats the run."""
    variant: str = ""
    """What tells it from other runs of its method, where there are several kinds of them."""

    @property
    def label(self) -> str:
        """How figures and tables call its method."""
        return f"{self.method} ({self.variant})" if self.variant else self.method

    @property
    def finished(self) -> bool:
        """Whether it ended well."""
        return self.state == "finished"


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Runs, and why other directories that look like one could not be read."""

    runs: tuple[Run, ...]
    unreadable: tuple[str, ...] = ()


def collect_runs(paths: Sequence[Path]) -> Collection:
    """All runs at or below some paths, each once; a ValueError that says where was looked if there are none."""
    directories = {file.parent.resolve(): file.parent for path in paths for file in path.rglob("config.json")}
    runs, unreadable = [], []
    for directory in sorted(directories.values()):
        try:
            runs.append(load_run(directory))
        except ValueError as error:
            unreadable.append(str(error))
    if not runs:
        raise ValueError("; ".join([f"no runs found: {_where(paths)}", *unreadable]))
    return Collection(runs=tuple(sorted(runs, key=_order)), unreadable=tuple(unreadable))


def find_runs(root: Path) -> list[Run]:
    """All runs below a directory, ordered by task, method and seed."""
    return sorted((load_run(path.parent) for path in root.rglob("config.json")), key=_order)


def load_run(directory: Path) -> Run:
    """Read one run directory. Only `config.json` must be there: a run that waits or was cut off lacks the others."""
    try:
        config = json.loads((directory / "config.json").read_text())
        status, episodes = _read_json(directory / "status.json"), load_episodes(directory / "episodes.csv")
        state, task, steps = str(status.get("state", "unknown")), config["task"], config["steps"]
        return Run(
            directory=directory,
            task=_text("task", task),
            method=_text("method", config["resolved"]["method"]),
            seed=_natural("seed", config["seed"]),
            total_steps=_natural("steps", steps),
            reached=steps if state == "finished" else _reached(status, episodes),
            state=state,
            episodes=episodes,
            sparse=_probability("sparse", config.get("sparse")),
            error=None if status.get("error") is None else str(status["error"]),
            settings={name: value for name, value in config.items() if name != "resolved"},
            origin=_read_json(directory / "run.json"),
        )
    except (OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f"{str(directory)!r} is not a run directory: {reason}") from error


def load_episodes(path: Path) -> Episodes:
    """Read `episodes.csv`; none without the file. Episodes whose return is not a number are left out."""
    if not path.exists():
        return Episodes(steps=np.empty(0), returns=np.empty(0))
    columns = _read_columns(path, only=("steps", "return"))
    valid = np.isfinite(columns["steps"]) & np.isfinite(columns["return"])
    return Episodes(steps=columns["steps"][valid], returns=columns["return"][valid])


def load_progress(path: Path) -> dict[str, Array]:
    """Read `progress.csv`, the logger's numbers: an array for each column, NaN where a cell is empty; none: {}."""
    return _read_columns(path) if path.exists() else {}


def _read_columns(path: Path, *, only: Iterable[str] | None = None) -> dict[str, Array]:
    # A row is complete once its line is ended: of "…,200" without an end, a running writer may have meant 2000.
    text = path.read_text(errors="replace")
    header, *rows = [*csv.reader(io.StringIO(text[: text.rfind("\n") + 1]))] or [[]]
    complete = [row for row in rows if len(row) == len(header)]
    cells = {name: [row[index] for row in complete] for index, name in enumerate(header)}
    # A file without even a header is one that was just begun.
    wanted = cells if only is None else {name: cells[name] if header else [] for name in only}
    return {name: np.array([_number(cell) for cell in column], dtype=np.float64) for name, column in wanted.items()}


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _reached(status: Mapping[str, Any], episodes: Episodes) -> int:
    last = int(episodes.steps[-1]) if len(episodes.steps) else 0
    return max(last, _natural("steps of status.json", status.get("steps") or 0))


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{name} must be text on one line, got {value!r}")
    return value


def _natural(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _TOO_MANY:
        raise ValueError(f"{name} must be an integer of at least 0 and below 2^63, got {value!r}")
    return value


def _probability(name: str, value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1, or null, got {value!r}")
    return value


def _order(run: Run) -> tuple[str, str, int, Path]:
    return run.task, run.method, run.seed, run.directory


def _where(paths: Sequence[Path]) -> str:
    return ", ".join(f"{str(path)!r} {_emptiness(path)}" for path in paths) or "no directory was given"


def _emptiness(path: Path) -> str:
    if not path.exists():
        return "does not exist"
    return "holds no config.json at any depth" if path.is_dir() else "is not a directory"
