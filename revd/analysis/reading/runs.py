"""Reading run directories, finished or not.

Only the file formats are known here, not the code that writes them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from revd.analysis.reading.damage import find_damage
from revd.analysis.reading.values import require_finite, require_natural, require_probability, require_text
from revd.arrays import Array
from revd.episodes import NO_EPISODES, EpisodeFile, Episodes, read_episodes
from revd.former_defaults import with_former_yielding
from revd.storage.csv_file import read_csv
from revd.storage.plain_file import read_plain_text
from revd.storage.run_files import CONFIG, EPISODES, PROGRESS, RUN, STATUS

#: Shares of the bonus in the absolute reward and in the wall time.
BONUS_COLUMNS = ("exploration/bonus_share", "exploration/time_fraction")
#: Steps at the end of a rollout, in `progress.csv`.
ROLLOUT_STEPS = "time/total_timesteps"
#: What is shown over the training: the weight of the bonus, and its share.
ROLLOUT_COLUMNS = ("exploration/weight", "exploration/bonus_share")
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
    seconds: Mapping[str, float] = field(default_factory=dict)
    """How the last session of a finished run spent its time, by part."""
    bonus: Mapping[str, float] = field(default_factory=dict)
    """Means of `BONUS_COLUMNS` over the logged rollouts; NaN if a column was not logged."""
    rollouts: Mapping[str, Array] = field(default_factory=dict)
    """`ROLLOUT_STEPS` and the logged ones of `ROLLOUT_COLUMNS`, each (rollouts,); empty in an archive."""
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


def load_runs(root: Path) -> list[RecordedRun]:
    """Load all runs below a directory, ordered by task, method and seed.

    A ValueError says which run cannot be read.
    """
    return sorted((load_run(path.parent) for path in root.rglob(CONFIG)), key=sort_key)


def load_run(directory: Path) -> RecordedRun:
    """Load one run directory.

    Only `config.json` is required: waiting or interrupted runs may lack the other files.
    """
    try:
        config = json.loads(read_plain_text(directory / CONFIG))
        status, origin = _read_json(directory / STATUS), _read_json(directory / RUN)
        file, damage = _read_episodes(directory / EPISODES, config=config, status=status, origin=origin)
        progress = load_progress(directory / PROGRESS)
        state, task, steps = str(status.get("state", "unknown")), config["task"], config["steps"]
        return RecordedRun(
            directory=directory,
            task=require_text("task", task),
            method=require_text("method", config["resolved"]["method"]),
            seed=require_natural("seed", config["seed"]),
            total_steps=require_natural("steps", steps),
            reached=steps if state == "finished" else _steps_taken(status, file.episodes),
            state=state,
            episodes=file.episodes,
            sparse=require_probability("sparse", config.get("sparse")),
            error=None if status.get("error") is None else str(status["error"]),
            settings={name: value for name, value in with_former_yielding(config).items() if name != "resolved"},
            origin=origin,
            seconds=_read_seconds(status),
            bonus=_bonus_means(progress),
            rollouts={name: progress[name] for name in (ROLLOUT_STEPS, *ROLLOUT_COLUMNS) if name in progress},
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


def _bonus_means(progress: Mapping[str, Array]) -> dict[str, float]:
    logged = {name: progress.get(name, np.empty(0)) for name in BONUS_COLUMNS}
    finite = {name: values[np.isfinite(values)] for name, values in logged.items()}
    return {name: float(values.mean()) if len(values) else float("nan") for name, values in finite.items()}


def _read_seconds(status: Mapping[str, Any]) -> dict[str, float]:
    """The seconds of a status; none of them if one is no number."""
    seconds = status.get("seconds")
    try:
        return {str(name): require_finite("seconds", value) for name, value in dict(seconds or {}).items()}
    except (TypeError, ValueError):
        return {}


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
    return max(last, require_natural("steps of status.json", status.get("steps") or 0))


def sort_key(run: RecordedRun) -> tuple[str, str, int, Path]:
    """By task, method and seed."""
    return run.task, run.method, run.seed, run.directory
