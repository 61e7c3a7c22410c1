"""Reading run directories, finished or not.

Only the file formats are known here, not the code that writes them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from revd.analysis.reading.damage import find_damage
from revd.arrays import Array
from revd.episodes import NO_EPISODES, EpisodeFile, Episodes, read_episodes
from revd.storage.csv_file import read_csv
from revd.storage.plain_file import read_plain_text
from revd.storage.run_files import CONFIG, EPISODES, PROGRESS, RUN, STATUS

_INTEGER_LIMIT = 2**63
#: Files beside `config.json` that a report reads.
_OTHER_FILES = (STATUS, RUN, EPISODES, PROGRESS)


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """The content of one run directory."""

    directory: Path
    task: str
    method: str
    seed: int
    total_steps: int
    """Requested steps."""
    reached: int
    """Steps for which there is data: all requested ones if the run has finished, else those taken so far."""
    state: str
    episodes: Episodes
    sparse: float | None = None
    """Probability with which a step's reward was hidden from the agent; None outside the sparse setting."""
    error: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """`config.json` without its `resolved` entry."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """`run.json`: versions, commit and the command that repeats the run."""
    damage: str | None = None
    """What is wrong with its files, so that its numbers cannot be trusted; None if no damage was found."""
    variant: str = ""
    """The settings in which it differs from other runs of its method; empty if all have the same."""

    @property
    def label(self) -> str:
        """The name of its method and variant in figures and tables."""
        return f"{self.method} ({self.variant})" if self.variant else self.method

    @property
    def finished(self) -> bool:
        """Whether the training completed."""
        return self.state == "finished"

    @property
    def is_comparable(self) -> bool:
        """Whether it enters tables of final returns: finished and not damaged."""
        return self.finished and self.damage is None

    @property
    def is_drawable(self) -> bool:
        """Whether it enters learning curves: it has episodes, has not failed and is not damaged."""
        return self.state != "failed" and self.damage is None and len(self.episodes.returns) > 0


@dataclass(frozen=True, kw_only=True)
class FoundRuns:
    """Runs, and a message for each directory that looks like a run and could not be read."""

    runs: tuple[RecordedRun, ...]
    unreadable: tuple[str, ...] = ()


def find_runs(paths: Sequence[Path]) -> FoundRuns:
    """Load all runs at or below some paths, each once; a ValueError lists the paths if there are none."""
    directories = {file.parent.resolve(): file.parent for path in paths for file in path.rglob(CONFIG)}
    runs, unreadable = [], []
    for directory in sorted(directories.values()):
        try:
            runs.append(load_run(directory))
        except ValueError as error:
            unreadable.append(str(error))
    if not runs:
        raise ValueError("; ".join([f"no runs found: {_describe_paths(paths)}", *unreadable]))
    return FoundRuns(runs=tuple(sorted(runs, key=_sort_key)), unreadable=tuple(unreadable))


def load_runs(root: Path) -> list[RecordedRun]:
    """Load all runs below a directory, ordered by task, method and seed.

    A ValueError says which run cannot be read.
    """
    return sorted((load_run(path.parent) for path in root.rglob(CONFIG)), key=_sort_key)


def load_run(directory: Path) -> RecordedRun:
    """Load one run directory.

    Only `config.json` is required: waiting or interrupted runs may lack the other files.
    """
    try:
        config = json.loads(read_plain_text(directory / CONFIG))
        status, origin = _read_json(directory / STATUS), _read_json(directory / RUN)
        file, damage = _read_episodes(directory / EPISODES, config=config, status=status, origin=origin)
        state, task, steps = str(status.get("state", "unknown")), config["task"], config["steps"]
        return RecordedRun(
            directory=directory,
            task=_require_text("task", task),
            method=_require_text("method", config["resolved"]["method"]),
            seed=_require_natural("seed", config["seed"]),
            total_steps=_require_natural("steps", steps),
            reached=steps if state == "finished" else _steps_taken(status, file.episodes),
            state=state,
            episodes=file.episodes,
            sparse=_require_probability("sparse", config.get("sparse")),
            error=None if status.get("error") is None else str(status["error"]),
            settings={name: value for name, value in config.items() if name != "resolved"},
            origin=origin,
            damage=_find_irregular_file(directory) or damage,
        )
    except (OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f"{str(directory)!r} is not a run directory: {reason}") from error


def load_progress(path: Path) -> dict[str, Array]:
    """Read the columns of `progress.csv`; none if the file cannot be read. Empty cells are NaN."""
    try:
        table = read_csv(path)
    except (OSError, ValueError):
        return {}
    rows = [cells for _, cells in table.rows if cells is not None]
    return {
        name: np.array([_number(cells[index]) for cells in rows], dtype=np.float64)
        for index, name in enumerate(table.columns)
    }


def _read_episodes(
    path: Path, *, config: Mapping[str, Any], status: Mapping[str, Any], origin: Mapping[str, Any]
) -> tuple[EpisodeFile, str | None]:
    """Read the episodes of a run, and find damage in them."""
    try:
        file = read_episodes(path)
    except (OSError, ValueError) as error:
        return NO_EPISODES, str(error)
    steps = status.get("steps")
    if not path.exists() and (status.get("state") == "finished" or (isinstance(steps, int) and steps > 0)):
        return file, f"{EPISODES} is missing"
    damage = find_damage(file, config=config, status=status, origin=origin)
    return file, None if damage is None else f"{EPISODES}: {damage}"


def _find_irregular_file(directory: Path) -> str | None:
    """Find a device, FIFO or directory in the place of a run's file, which could block its reader."""
    for path in (directory / name for name in _OTHER_FILES):
        if path.exists() and not path.is_file():
            return f"{path.name} is not a regular file"
    return None


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(read_plain_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _steps_taken(status: Mapping[str, Any], episodes: Episodes) -> int:
    last = int(episodes.steps[-1]) if len(episodes.steps) else 0
    return max(last, _require_natural("steps of status.json", status.get("steps") or 0))


def _require_text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{name} must be text on one line, got {value!r}")
    return value


def _require_natural(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _INTEGER_LIMIT:
        raise ValueError(f"{name} must be an integer of at least 0 and below 2^63, got {value!r}")
    return value


def _require_probability(name: str, value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be a number from 0 to 1, or null, got {value!r}")
    return value


def _sort_key(run: RecordedRun) -> tuple[str, str, int, Path]:
    return run.task, run.method, run.seed, run.directory


def _describe_paths(paths: Sequence[Path]) -> str:
    return ", ".join(f"{str(path)!r} {_why_no_runs(path)}" for path in paths) or "no directory was given"


def _why_no_runs(path: Path) -> str:
    if not path.exists():
        return "does not exist"
    return f"holds no {CONFIG} at any depth" if path.is_dir() else "is not a directory"
