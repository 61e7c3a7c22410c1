"""Many trainings, so many at a time, watched through their status files wherever they run."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from revd.episodes import final_return, read_episodes
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, Status
from revd.runs.termination import interrupt_on_termination
from revd.suites.backends.interface import Attempt, Backend
from revd.suites.backends.local import LocalBackend

#: How often a run whose machine was lost goes on elsewhere; its own failures are counted apart.
LOSSES = 20


@dataclass(frozen=True, kw_only=True)
class Run:
    """A training and how far it is. `final` is its final return, once it has finished with one."""

    config: TrainConfig
    status: Status
    final: float | None = None


Watch = Callable[[Sequence[Run]], None]


def launch(
    configs: Sequence[TrainConfig],
    *,
    jobs: int,
    watch: Watch,
    retries: int = 0,
    interval: float = 0.5,
    backend: Backend | None = None,
) -> list[Run]:
    """
    Train all `configs`, `jobs` at a time, and return how each ended.

    Finished runs are not started again, interrupted ones go on from their last checkpoint. A run that fails leaves
    the others alone, and is started again up to `retries` times; one that lost its machine goes on elsewhere without
    that being counted. `watch` sees all of them every `interval` seconds and once at the end. What a run prints goes
    to `log.txt` in its directory. An interrupt ends the running ones, then goes on. `backend` says where runs are
    started: as processes of this machine, if it is not given.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    if retries < 0:
        raise ValueError(f"retries must be at least 0, got {retries}")
    check_directories(configs)
    place = LocalBackend() if backend is None else backend
    watched = [WatchedRun(config, place, retries) for config in configs]
    with interrupt_on_termination(), _stopped_at_last(watched):
        while True:
            _start_waiting(watched, jobs)
            # Before looking, so that the last look is at ends only.
            over = all(one.ended for one in watched)
            runs = [one.look() for one in watched]
            watch(runs)
            if over:
                return runs
            time.sleep(interval)


def check_directories(configs: Sequence[TrainConfig]) -> None:
    """Raise an error unless every run has a directory of its own, in which no other training is."""
    seen: set[Path] = set()
    for config in configs:
        refuse_another_run(config)
        if config.directory in seen:
            raise ValueError(f"two of the runs have the same output {str(config.directory)!r}")
        seen.add(config.directory)


def refuse_another_run(config: TrainConfig) -> None:
    """Raise a FileExistsError for a directory that holds another training than `config`.

    One that cannot be read is that run's own trouble, once it is started.
    """
    try:
        RunDirectory(config.directory).open(config)
    except FileExistsError:
        raise
    except (OSError, ValueError):
        return


def _start_waiting(watched: Sequence["WatchedRun"], jobs: int) -> None:
    free = jobs - sum(one.running for one in watched)
    for one in [one for one in watched if one.waits][: max(free, 0)]:
        one.start()


class WatchedRun:
    """One run, the attempts at it, and what can be known about it from outside.

    Args:
        config: The run.
        backend: Where it is started.
        retries: How often it is started again after a failure; losses of its machine are counted apart.
    """

    def __init__(self, config: TrainConfig, backend: Backend, retries: int) -> None:
        self._config = config
        self._backend = backend
        self._directory = RunDirectory(config.directory)
        self._attempt: Attempt | None = None
        self._trouble: str | None = None
        self._stale: Status | None = None
        self._loss: str | None = None
        self._final: float | None = None
        self._is_read = False
        self._starts_left = 0 if self._directory.is_finished(config.steps) else 1 + retries
        self._losses_left = LOSSES

    @property
    def running(self) -> bool:
        """Whether an attempt at it has not ended."""
        return self._attempt is not None and self._attempt.running

    @property
    def waits(self) -> bool:
        """To be started, for the first time, after a failure or after a loss."""
        if self.running or self._directory.is_finished(self._config.steps):
            return False
        return self._starts_left > 0 if self._last_loss() is None else self._losses_left > 0

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return not self.running and not self.waits

    def _last_loss(self) -> str | None:
        """How the last attempt lost its machine; None if that is not what ended it."""
        if self._attempt is None or self._attempt.running or not self._attempt.lost:
            return None
        return f"lost its machine, to go on from its last checkpoint: {self._attempt.last_words()}"

    def start(self) -> None:
        """Start an attempt; what is in its way, a full disk or a damaged directory, is this run's trouble alone."""
        self._loss = self._last_loss()
        if self._loss is None:
            self._starts_left -= 1
        else:
            self._losses_left -= 1
        self.stop()
        self._attempt = self._trouble = None
        self._stale = self._directory.read_status()
        try:
            self._attempt = self._backend.start(self._config)
        except (OSError, ValueError) as error:
            self._trouble = f"cannot be started: {error}"

    def look(self) -> Run:
        """How far it is."""
        # In this order: what an attempt says last is in the file once it is no longer running.
        running = self.running
        status = self._directory.read_status() or Status(state="running", total_steps=self._config.steps)
        if self.waits:
            status = replace(status, state="waiting", error=self._last_loss() or status.error)
        elif self._trouble is not None:
            status = replace(status, state="failed", error=self._trouble)
        elif self._attempt is not None:
            status = self._judge(self._attempt, running, status)
        return Run(config=self._config, status=status, final=self._final_return(status))

    def _final_return(self, status: Status) -> float | None:
        """Read once: the file of a finished run stays as it is. None if it is damaged."""
        if status.state != "finished":
            return None
        if not self._is_read:
            with suppress(OSError, ValueError):
                file = read_episodes(self._directory.episodes)
                self._final = None if file.faults else final_return(file.episodes, status.total_steps)
            self._is_read = True
        return self._final

    def _judge(self, attempt: Attempt, running: bool, status: Status) -> Status:
        if status == self._stale:
            # What an earlier session left; this one has not said anything yet.
            status = replace(status, state="running", error=None)
        if running and attempt.queued:
            return replace(status, state="waiting", error=self._loss)
        if not running and status.state == "running":
            # It ended without saying so: a wrong config, or it was killed.
            status = replace(status, state="failed", error=attempt.last_words())
            self._note_failure(status)
        return status

    def _note_failure(self, status: Status) -> None:
        """Write it into the run, unless another process is at work there or the disk is full: the table says it too."""
        with suppress(OSError, ValueError):
            if self._directory.run.exists():
                with self._directory.locked(patience=None):
                    self._directory.finish(status)

    def ask_to_stop(self) -> None:
        """Interrupt it, if it is running."""
        if self._attempt is not None:
            self._attempt.ask_to_stop()

    def stop(self) -> None:
        """Wait for its end, and end it by force if need be."""
        if self._attempt is not None:
            self._attempt.stop()


@contextmanager
def _stopped_at_last(watched: Sequence[WatchedRun]) -> Iterator[None]:
    try:
        yield
    finally:
        for one in watched:
            one.ask_to_stop()
        for one in watched:
            one.stop()
