"""Trains many runs, a number of them at a time, and follows them through their status files."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from revd.episodes import final_return, read_episodes
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, Status
from revd.runs.termination import interrupt_on_termination
from revd.suites.launchers.interface import Attempt, Launcher
from revd.suites.launchers.local import LocalLauncher

#: How often a run is started again after its machine was lost. Failures of the run itself are counted apart.
MAX_LOSSES = 20


@dataclass(frozen=True, kw_only=True)
class RunProgress:
    """How far a run of a suite is. `final` is its final return; None before it has finished."""

    config: TrainConfig
    status: Status
    final: float | None = None


Watch = Callable[[Sequence[RunProgress]], None]


def train_all(
    configs: Sequence[TrainConfig],
    *,
    jobs: int,
    watch: Watch,
    retries: int = 0,
    interval: float = 0.5,
    launcher: Launcher | None = None,
) -> list[RunProgress]:
    """Train all `configs`, `jobs` at a time, and return how each ended.

    Finished runs are skipped, interrupted ones resume from their last checkpoint, and failures do not affect other
    runs. The output of a run is in `log.txt` in its directory. An interrupt ends the running ones and is then raised.

    Args:
        configs: The runs.
        jobs: Runs at a time.
        watch: Called with the state of all runs every `interval` seconds, and once at the end.
        retries: How often a failed run is started again. One that lost its machine is started again in any case.
        interval: Seconds between two looks at the runs.
        launcher: Starts the runs; by default as processes of this machine.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    if retries < 0:
        raise ValueError(f"retries must be at least 0, got {retries}")
    _require_different_directories(configs)
    launcher = LocalLauncher() if launcher is None else launcher
    runs = [ScheduledRun(config, launcher, retries) for config in configs]
    with interrupt_on_termination(), _stopping_at_end(runs):
        while True:
            _start_waiting(runs, jobs)
            # Asked first, so that the last report is of runs that have ended.
            all_ended = all(run.ended for run in runs)
            reports = [run.progress() for run in runs]
            watch(reports)
            if all_ended:
                return reports
            time.sleep(interval)


def check_directories(configs: Sequence[TrainConfig]) -> None:
    """Raise an error unless every run has a directory of its own that holds no other training."""
    _require_different_directories(configs)
    for config in configs:
        _damage(RunDirectory(config.directory), config)


def _require_different_directories(configs: Sequence[TrainConfig]) -> None:
    seen: set[Path] = set()
    for config in configs:
        if config.directory in seen:
            raise ValueError(f"two of the runs have the same output {str(config.directory)!r}")
        seen.add(config.directory)


def _damage(directory: RunDirectory, config: TrainConfig) -> str | None:
    """Raise a FileExistsError if the directory holds another training; return why it cannot be read, if so."""
    try:
        directory.check(config)
    except FileExistsError:
        raise
    except (OSError, ValueError) as error:
        return str(error)
    return None


def _start_waiting(runs: Sequence["ScheduledRun"], jobs: int) -> None:
    free = jobs - sum(run.running for run in runs)
    for run in [run for run in runs if run.waits][: max(free, 0)]:
        run.start()


class ScheduledRun:
    """One run and the attempts at it. A FileExistsError if its directory holds another training.

    Args:
        config: The run.
        launcher: Starts it.
        retries: How often it is started again after a failure. Losses of its machine are counted apart.
    """

    def __init__(self, config: TrainConfig, launcher: Launcher, retries: int) -> None:
        self._config = config
        self._launcher = launcher
        self._directory = RunDirectory(config.directory)
        self._attempt: Attempt | None = None
        self._start_error: str | None = None
        self._earlier_status: Status | None = None
        self._loss: str | None = None
        self._final: float | None = None
        self._final_is_read = False
        self._losses_left = MAX_LOSSES
        damage = _damage(self._directory, config)
        finished = self._directory.is_finished(config.steps)
        self._starts_left = 0 if finished or damage else 1 + retries
        if damage and not finished:
            # Not raised: other runs are not affected.
            self._start_error = f"cannot be started: {damage}"

    @property
    def running(self) -> bool:
        """Whether the current attempt has not ended."""
        return self._attempt is not None and self._attempt.running

    @property
    def waits(self) -> bool:
        """Whether it is to be started: for the first time, after a failure, or after a loss."""
        if self.running or self._directory.is_finished(self._config.steps):
            return False
        return self._starts_left > 0 if self._last_loss() is None else self._losses_left > 0

    @property
    def ended(self) -> bool:
        """Whether it neither runs nor will be started again."""
        return not self.running and not self.waits

    def _last_loss(self) -> str | None:
        """How the last attempt lost its machine; None if it ended otherwise."""
        if self._attempt is None or self._attempt.running or not self._attempt.lost:
            return None
        return f"lost its machine, and resumes from its last checkpoint: {self._attempt.end_reason()}"

    def start(self) -> None:
        """Start an attempt. An error, such as a full disk, fails only this run."""
        self._loss = self._last_loss()
        if self._loss is None:
            self._starts_left -= 1
        else:
            self._losses_left -= 1
        self.stop()
        self._attempt = self._start_error = None
        self._earlier_status = self._directory.read_status()
        try:
            self._attempt = self._launcher.start(self._config)
        except (OSError, ValueError) as error:
            self._start_error = f"cannot be started: {error}"

    def progress(self) -> RunProgress:
        """How far it is."""
        # In this order: the last status of an attempt is in the file once it is no longer running.
        running = self.running
        status = self._directory.read_status() or Status(state="running", total_steps=self._config.steps)
        if self.waits:
            status = replace(status, state="waiting", error=self._last_loss() or status.error)
        elif self._start_error is not None:
            status = replace(status, state="failed", error=self._start_error)
        elif self._attempt is not None:
            status = self._status_of(self._attempt, running, status)
        return RunProgress(config=self._config, status=status, final=self._final_return(status))

    def _final_return(self, status: Status) -> float | None:
        """Read once, since a finished run no longer changes. None if its file is damaged."""
        if status.state != "finished":
            return None
        if not self._final_is_read:
            with suppress(OSError, ValueError):
                file = read_episodes(self._directory.episodes)
                self._final = None if file.faults else final_return(file.episodes, status.total_steps)
            self._final_is_read = True
        return self._final

    def _status_of(self, attempt: Attempt, running: bool, status: Status) -> Status:
        if status == self._earlier_status:
            # The file is an earlier session's: this one has not written its status yet.
            status = replace(status, state="running", error=None)
        if running and attempt.queued:
            return replace(status, state="waiting", error=self._loss)
        if not running and status.state == "running":
            # It ended without writing a status: its config is wrong, or it was killed.
            status = replace(status, state="failed", error=attempt.end_reason())
            self._record_failure(status)
        return status

    def _record_failure(self, status: Status) -> None:
        """Write the failure into the run, unless another process holds it or the disk is full."""
        with suppress(OSError, ValueError):
            if self._directory.run.exists():
                with self._directory.locked(takeover_after=None):
                    self._directory.finish(status)

    def ask_to_stop(self) -> None:
        """Interrupt it, if it is running."""
        if self._attempt is not None:
            self._attempt.ask_to_stop()

    def stop(self) -> None:
        """Wait for its end, and kill it if it does not end in time."""
        if self._attempt is not None:
            self._attempt.stop()


@contextmanager
def _stopping_at_end(runs: Sequence[ScheduledRun]) -> Iterator[None]:
    try:
        yield
    finally:
        for run in runs:
            run.ask_to_stop()
        for run in runs:
            run.stop()
