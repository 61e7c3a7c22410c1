"""The run directory: its files, and the checks before a training may write to it."""

import json
import math
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, get_args

import revd
from revd.envs.tasks import FAMILIES_IN_ENVPOOL, Engine
from revd.former_defaults import former_parameters
from revd.runs.checkpoints import Checkpoints
from revd.runs.config import AUTO, NO_COVERAGE, NO_REWARD, TrainConfig
from revd.runs.cpu_threads import describe_processor
from revd.runs.lease import SECONDS_UNTIL_TAKEOVER, Lease, lease
from revd.runs.parameters import Parameters
from revd.storage import run_files
from revd.storage.atomic import final_name, leftovers, make_directory, write_whole
from revd.storage.plain_file import read_plain_text

State = Literal["waiting", "running", "interrupted", "finished", "failed"]
#: What `finish` writes into run.json, and a resumed session removes.
_END_FIELDS = ("state", "error", "finished", "traceback")
_PACKAGES = ("torch", "numpy", "gymnasium", "stable-baselines3", "sb3-contrib")


@dataclass(frozen=True, kw_only=True)
class Status:
    """How far a run is; small enough to be rewritten every second.

    `seconds` says how a finished run's last session spent its time: the fields of `revd.training.timing.TimeBreakdown`.
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
        """Whether all fields have valid values: a damaged file may hold anything."""
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
    """Paths and small files of one run. Files are replaced whole, so that readers never see half a file."""

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
        self.visits = path / run_files.VISITS
        self.bonus = path / run_files.BONUS
        self.log = path / run_files.LOG

    def check(self, config: TrainConfig) -> None:
        """Raise a FileExistsError if the directory holds another training: results are never overwritten."""
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"output {str(self.path)!r} is a file; it must be a directory")
        earlier = self.read_config()
        differences = [] if earlier is None else self.completed(earlier).differences(self.completed(config))
        if differences:
            raise FileExistsError(
                f"output {str(self.path)!r} already holds a run with other settings ({'; '.join(differences)}); "
                "choose another directory with --output"
                + (", or remove that one, in which nothing has been learnt yet" if self._ended_at_once() else "")
            )

    def _ended_at_once(self) -> bool:
        """Whether the run ended before it had learnt anything."""
        status = self.read_status()
        ended = status is not None and status.state in ("failed", "interrupted") and status.steps == 0
        return ended and self.checkpoints.newest_steps is None

    @contextmanager
    def locked(self, *, takeover_after: float | None = SECONDS_UNTIL_TAKEOVER) -> Iterator[Lease]:
        """Hold the directory's lease, and delete unfinished files of dead processes.

        A FileExistsError names the process that holds the directory; see `revd.runs.lease` for `takeover_after`.
        """
        make_directory(self.path)
        self.refuse_links()
        with lease(self.path, takeover_after=takeover_after) as held:
            for path in [*self._leftovers(), *leftovers(self.checkpoints.path)]:
                path.unlink(missing_ok=True)
            yield held

    def refuse_links(self) -> None:
        """Raise a ValueError for a symbolic link: an untrusted directory must not redirect our writes."""
        for path in (*self.path.iterdir(), *self.checkpoints.path.glob("*")):
            if path.is_symlink():
                raise ValueError(f"{str(path)!r} is a symbolic link; a run is written into its own directory only")

    def _leftovers(self) -> list[Path]:
        """Unfinished files of the training; a film that is being written, for example, is not one of them."""
        names = {path.name for path in vars(self).values() if isinstance(path, Path)}
        return [path for path in leftovers(self.path) if final_name(path) in names]

    def read_config(self) -> TrainConfig | None:
        """The config of the run; None if there is none yet."""
        if not self.config.exists():
            return None
        try:
            values = json.loads(read_plain_text(self.config))
            return TrainConfig.from_dict({name: value for name, value in values.items() if name != "resolved"})
        except (ValueError, TypeError, AttributeError, RecursionError, OSError) as error:
            raise ValueError(f"{str(self.config)!r} is damaged or describes no training: {error}") from error

    def engine_of(self, config: TrainConfig) -> Engine:
        """The engine that a session with this config uses: with "auto", that of the earlier sessions.

        Runs from before there was a choice were stepped by Gymnasium.
        """
        if config.engine != "auto" or not self.config.exists():
            return config.engine
        resolved = _read_json(self.config).get("resolved")
        return "envpool" if isinstance(resolved, dict) and resolved.get("engine") == "envpool" else "gymnasium"

    def coverage_of(self, config: TrainConfig) -> str:
        """What a session with this config counts: with "auto", nothing if the earlier sessions did not count.

        Runs from before there was a choice did not.
        """
        if config.coverage != AUTO or not self.config.exists():
            return config.coverage
        resolved = _read_json(self.config).get("resolved")
        counted = isinstance(resolved, dict) and resolved.get("coverage") is not None
        return config.coverage if counted else NO_COVERAGE

    @property
    def predates_automatic_weights(self) -> bool:
        """Whether the directory holds a run from when every bonus had a fixed weight."""
        return self.config.exists() and "strength" not in _read_json(self.config)

    def completed(self, config: TrainConfig) -> TrainConfig:
        """The config with what a resumed run keeps, though its default has changed."""
        if not self.config.exists():
            return config
        stored = _read_json(self.config)
        used = _reward_params(stored.get("resolved"))
        kept = {name: used.get(name, value) for name, value in former_parameters(config.reward).items()}
        if config.reward != NO_REWARD and config.weight == AUTO and _never_yielded(stored):
            config = replace(config, yield_to_task=False)
        return _with_defaults(config, kept)

    def is_finished(self, steps: int) -> bool:
        """Whether the run has finished, with at least `steps` steps."""
        status = self.read_status()
        return status is not None and status.state == "finished" and status.total_steps >= steps

    def start(self, config: TrainConfig, *, resolved: Mapping[str, Any], steps: int) -> None:
        """Record the start of a run, or of another session after `steps`: its config, command and software."""
        make_directory(self.path)
        earlier = _read_json(self.run)
        described = {**describe_software(), "repeat": _repeatable(config, resolved).command()}
        if earlier:
            sessions = earlier.get("resumed")
            resumed = [*(sessions if isinstance(sessions, list) else []), {"steps": steps, **described}]
            # The last command repeats the run, since it may have asked for more steps.
            kept = {name: value for name, value in earlier.items() if name not in _END_FIELDS}
            described = {**kept, "repeat": described["repeat"], "resumed": resumed, "error": None}
        write_json(self.config, {**config.to_dict(), "resolved": dict(resolved)})
        write_json(self.run, {**described, "state": "running"})
        self.write_status(Status(state="running", steps=steps, total_steps=config.steps))

    def finish(self, status: Status, *, traceback: str | None = None) -> None:
        """Record the end of a run, with the traceback of an error."""
        self.write_status(status)
        ended: dict[str, Any] = {"state": status.state, "error": status.error, "finished": now()}
        if traceback is not None:
            ended["traceback"] = traceback.splitlines()
        write_json(self.run, {**_read_json(self.run), **ended})

    def write_status(self, status: Status) -> None:
        """Replace `status.json`."""
        write_json(self.status, asdict(status))

    def read_status(self) -> Status | None:
        """Read `status.json`; None if it is missing or damaged, since checkpoints are what a run resumes from."""
        try:
            status = Status(**_read_json(self.status))
        except (TypeError, OSError):
            return None
        return status if status.is_valid else None


def _reward_params(resolved: object) -> dict[str, Any]:
    """The flat parameters of the reward in a config's resolved values; empty if these are damaged or have none."""
    params = resolved.get("reward_params") if isinstance(resolved, dict) else None
    return Parameters(params).flat() if isinstance(params, dict) else {}


def _never_yielded(stored: Mapping[str, Any]) -> bool:
    """Whether a run began before a bonus could yield to the task."""
    resolved = stored.get("resolved")
    kept = isinstance(resolved, dict) and resolved.get("yield_to_task") is False
    return "yield_to_task" not in stored or (stored["yield_to_task"] is True and kept)


def _with_defaults(config: TrainConfig, defaults: Mapping[str, Any]) -> TrainConfig:
    """The config with these flat parameters of the reward where it names none."""
    params = Parameters()
    for name, value in {**defaults, **config.reward_params.flat()}.items():
        params = params.with_value(name, value)
    return replace(config, reward_params=params)


def _repeatable(config: TrainConfig, resolved: Mapping[str, Any]) -> TrainConfig:
    """The config with what a new run would not choose: this machine's engine, an old run's parameters."""
    used = _reward_params(dict(resolved))
    former = former_parameters(config.reward)
    config = _with_defaults(config, {name: value for name, value in former.items() if used.get(name) == value})
    config = replace(config, yield_to_task=resolved.get("yield_to_task", config.yield_to_task))
    has_choice = config.task.startswith(tuple(f"{family}/" for family in FAMILIES_IN_ENVPOOL))
    return replace(config, engine=resolved["engine"]) if has_choice and "engine" in resolved else config


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write indented JSON that every parser accepts: numbers that are not finite become null."""
    write_whole(path, (json.dumps(_plain(values), indent=2, allow_nan=False) + "\n").encode())


def _read_json(path: Path) -> dict[str, Any]:
    """Read what `write_json` wrote; empty if the file is missing or damaged."""
    try:
        values = json.loads(read_plain_text(path))
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def describe_software() -> dict[str, Any]:
    """The command line, the versions, the machine, and the commit of the current directory's git repository."""
    versions = {name: found for name in _PACKAGES if (found := _version(name)) is not None}
    return {
        "started": now(),
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": describe_processor(),
        "versions": {"revd": revd.__version__, **versions},
        # Not whether files differ from the commit: for that, git would execute programs that the repository configures.
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
    """Output of git in the current directory; None without git, a repository, or a first commit."""
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
    # Classes and schedules among an algorithm's defaults have no JSON form, so their names are written.
    return getattr(value, "__name__", str(value))
