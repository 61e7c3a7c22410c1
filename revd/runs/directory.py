"""The run directory: everything one training leaves behind, and the only place that knows its file names."""

import json
import math
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, get_args

import revd
from revd.runs.checkpoints import Checkpoints
from revd.runs.config import TrainConfig
from revd.runs.lease import PATIENCE, Lease, lease
from revd.storage import run_files
from revd.storage.atomic import final_name, leftovers, make_directory, write_whole

State = Literal["waiting", "running", "interrupted", "finished", "failed"]
#: What `finish` writes into run.json: another session has not ended yet, and may end better.
_OF_AN_END = ("state", "error", "finished", "traceback")
_PACKAGES = ("torch", "numpy", "gymnasium", "stable-baselines3", "sb3-contrib")


@dataclass(frozen=True, kw_only=True)
class Status:
    """
    How far a run is, small enough to be rewritten every second.

    Once it has finished, `seconds` says on what its last session spent them: the fields of `revd.training.timing.Seconds`.
    """

    state: State
    steps: int = 0
    total_steps: int = 0
    episode_return: float | None = None
    bonus_share: float | None = None
    steps_per_second: float | None = None
    seconds: dict[str, float] | None = None
    error: str | None = None

    @property
    def is_valid(self) -> bool:
        """Whether all fields are what they should be: a file may hold anything in any of them."""
        if not isinstance(self.seconds, dict | None):
            return False
        spent = (self.seconds or {}).values()
        numbers = (self.episode_return, self.bonus_share, self.steps_per_second, *spent)
        return (
            self.state in get_args(State)
            and all(type(value) is int and 0 <= value < 2**63 for value in (self.steps, self.total_steps))
            and all(value is None or (type(value) in (int, float) and abs(value) < 2**63) for value in numbers)
            and isinstance(self.error, str | None)
        )


class RunDirectory:
    """Paths and small files of one run. Files are replaced whole, so that readers never see half of one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / run_files.CONFIG
        self.run = path / run_files.RUN
        self.status = path / run_files.STATUS
        self.episodes = path / run_files.EPISODES
        self.progress = path / run_files.PROGRESS
        self.evaluations = path / run_files.EVALUATIONS
        self.checkpoints = Checkpoints(path / run_files.CHECKPOINTS)
        self.model = path / run_files.MODEL
        self.normalization = path / run_files.NORMALIZATION
        self.vec_normalize = path / run_files.VEC_NORMALIZE
        self.bonus = path / run_files.BONUS
        self.log = path / run_files.LOG

    def open(self, config: TrainConfig) -> None:
        """Refuse a directory that holds another training than `config`: results are never overwritten."""
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"output {str(self.path)!r} is a file; it must be a directory")
        earlier = self.read_config()
        differences = [] if earlier is None else earlier.differences(config)
        if differences:
            status = self.read_status()
            ended = status is not None and status.state in ("failed", "interrupted") and status.steps == 0
            empty = ended and self.checkpoints.newest_steps is None
            raise FileExistsError(
                f"output {str(self.path)!r} already holds a run with other settings ({'; '.join(differences)}); "
                "choose another directory with --output"
                + (", or remove that one, in which nothing has been learnt yet" if empty else "")
            )

    @contextmanager
    def locked(self, *, patience: float | None = PATIENCE) -> Iterator[Lease]:
        """
        Keep the directory to this process, and clear away what dead ones left half-written.

        A FileExistsError says who else is at work here; see `revd.runs.lease` for `patience`.
        """
        make_directory(self.path)
        self.refuse_links()
        with lease(self.path, patience=patience) as held:
            for path in [*self._leftovers(), *leftovers(self.checkpoints.path)]:
                path.unlink(missing_ok=True)
            yield held

    def refuse_links(self) -> None:
        """Raise a ValueError for a symbolic link: a directory from elsewhere must not lead our writes out of it."""
        for path in (*self.path.iterdir(), *self.checkpoints.path.glob("*")):
            if path.is_symlink():
                raise ValueError(f"{str(path)!r} is a symbolic link; a run is written into its own directory only")

    def _leftovers(self) -> list[Path]:
        """Unfinished files of this run; those of others, such as a film that is being drawn, are left alone."""
        ours = {path.name for path in vars(self).values() if isinstance(path, Path)}
        return [path for path in leftovers(self.path) if final_name(path) in ours]

    def read_config(self) -> TrainConfig | None:
        """What the run is; None if there is none yet."""
        if not self.config.exists():
            return None
        try:
            values = json.loads(self.config.read_text())
            return TrainConfig.from_dict({name: value for name, value in values.items() if name != "resolved"})
        except (ValueError, TypeError, AttributeError, RecursionError, OSError) as error:
            raise ValueError(f"{str(self.config)!r} is damaged or describes no training: {error}") from error

    def is_finished(self, steps: int) -> bool:
        """Whether the run has ended well after at least so many steps."""
        status = self.read_status()
        return status is not None and status.state == "finished" and status.total_steps >= steps

    def start(self, config: TrainConfig, *, resolved: Mapping[str, Any], steps: int) -> None:
        """Start a run or, after `steps` that are done, another session of it: what it is, and with what software."""
        make_directory(self.path)
        earlier = _read_json(self.run)
        described = {**describe_software(), "repeat": config.command()}
        if earlier:
            sessions = earlier.get("resumed")
            resumed = [*(sessions if isinstance(sessions, list) else []), {"steps": steps, **described}]
            # What repeats the run is the last command: it may have asked for more steps.
            kept = {name: value for name, value in earlier.items() if name not in _OF_AN_END}
            described = {**kept, "repeat": described["repeat"], "resumed": resumed, "error": None}
        write_json(self.config, {**config.to_dict(), "resolved": dict(resolved)})
        write_json(self.run, {**described, "state": "running"})
        self.write_status(Status(state="running", steps=steps, total_steps=config.steps))

    def finish(self, status: Status, *, traceback: str | None = None) -> None:
        """End a run, well or not; where it broke in our own code, `traceback` says where."""
        self.write_status(status)
        ended: dict[str, Any] = {"state": status.state, "error": status.error, "finished": now()}
        if traceback is not None:
            ended["traceback"] = traceback.splitlines()
        write_json(self.run, {**_read_json(self.run), **ended})

    def write_status(self, status: Status) -> None:
        """Replace `status.json`."""
        write_json(self.status, asdict(status))

    def read_status(self) -> Status | None:
        """What `status.json` says; None before there is one, or if it is damaged: checkpoints say more than it does."""
        try:
            status = Status(**_read_json(self.status))
        except (TypeError, OSError):
            return None
        return status if status.is_valid else None


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write readable JSON that every parser accepts: numbers that are not finite become null."""
    write_whole(path, (json.dumps(_plain(values), indent=2, allow_nan=False) + "\n").encode())


def _read_json(path: Path) -> dict[str, Any]:
    """What `write_json` wrote; empty if there is nothing of that kind."""
    try:
        values = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def describe_software() -> dict[str, Any]:
    """The command line, the versions, and the commit of the working tree one is in."""
    versions = {name: found for name in _PACKAGES if (found := _version(name)) is not None}
    return {
        "started": now(),
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {"revd": revd.__version__, **versions},
        # Not whether files differ from it: git would execute what the repository's own settings name to find out.
        "git": {"commit": _git("rev-parse", "HEAD")},
    }


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    """What git says about the current directory; None without git, a repository, or a first commit."""
    try:
        answer = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    # Classes and schedules among an algorithm's defaults have no JSON; their name says what they were.
    return getattr(value, "__name__", str(value))
