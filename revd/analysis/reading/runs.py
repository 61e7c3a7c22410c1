"""Reading run directories, finished or not. The files' format is all that is known of their writer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from revd.analysis.reading.damage import find_damage
from revd.episodes import NO_EPISODES, Array, EpisodeFile, Episodes, read_episodes
from revd.storage.csv_file import read_csv
from revd.storage.plain_file import read_plain_text

_TOO_MANY = 2**63
#: Files beside `config.json` that a report reads.
_FILES = ("status.json", "run.json", "episodes.csv", "progress.csv")


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
    damage: str | None = None
    """What is wrong with its files, so that no number of it can be trusted; None if nothing is known to be."""
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

    @property
    def counts(self) -> bool:
        """Whether it enters tables of final returns."""
        return self.finished and self.damage is None


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
        config = json.loads(read_plain_text(directory / "config.json"))
        status, origin = _read_json(directory / "status.json"), _read_json(directory / "run.json")
        file, damage = _read_episodes(directory / "episodes.csv", config=config, status=status, origin=origin)
        state, task, steps = str(status.get("state", "unknown")), config["task"], config["steps"]
        return Run(
            directory=directory,
            task=_text("task", task),
            method=_text("method", config["resolved"]["method"]),
            seed=_natural("seed", config["seed"]),
            total_steps=_natural("steps", steps),
            reached=steps if state == "finished" else _reached(status, file.episodes),
            state=state,
            episodes=file.episodes,
            sparse=_probability("sparse", config.get("sparse")),
            error=None if status.get("error") is None else str(status["error"]),
            settings={name: value for name, value in config.items() if name != "resolved"},
            origin=origin,
            damage=_not_plain(directory) or damage,
        )
    except (OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f"{str(directory)!r} is not a run directory: {reason}") from error


def load_progress(path: Path) -> dict[str, Array]:
    """Read `progress.csv`, the logger's numbers: an array for each column, NaN where a cell is empty; none: {}."""
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
    """The episodes of a run, and what is wrong with them."""
    try:
        file = read_episodes(path)
    except (OSError, ValueError) as error:
        return NO_EPISODES, str(error)
    steps = status.get("steps")
    if not path.exists() and (status.get("state") == "finished" or (isinstance(steps, int) and steps > 0)):
        return file, "episodes.csv is missing"
    damage = find_damage(file, config=config, status=status, origin=origin)
    return file, None if damage is None else f"episodes.csv: {damage}"


def _not_plain(directory: Path) -> str | None:
    """What stands in the place of one of a run's files; a device there may never end, a FIFO never begin."""
    for path in (directory / name for name in _FILES):
        if path.exists() and not path.is_file():
            return f"{path.name} is no ordinary file"
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
