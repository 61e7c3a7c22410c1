"""Many trainings on this machine: one process each, so many at a time, watched through their status files."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from revd.atomicfile import make_directory
from revd.experiments.config import TrainConfig
from revd.experiments.rundir import RunDirectory, Status
from revd.experiments.termination import interrupt_on_termination

#: Without -P, Python would import from the current directory first.
WORKER = (sys.executable, "-P", "-m", "revd.experiments.worker")
SECONDS_TO_STOP = 10.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """A training and how far it is."""

    config: TrainConfig
    status: Status


Watch = Callable[[Sequence[Run]], None]


def launch(
    configs: Sequence[TrainConfig],
    *,
    jobs: int,
    watch: Watch,
    retries: int = 0,
    interval: float = 0.5,
    worker: Sequence[str] = WORKER,
) -> list[Run]:
    """
    Train all `configs`, `jobs` at a time, and return how each ended.

    Finished runs are not started again, interrupted ones go on from their last checkpoint. A run that fails leaves
    the others alone, and is started again up to `retries` times. `watch` sees all of them every `interval` seconds
    and once at the end. What a run prints goes to `log.txt` in its directory. An interrupt ends the running ones,
    then goes on.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    if retries < 0:
        raise ValueError(f"retries must be at least 0, got {retries}")
    _check_directories(configs)
    processes = [_Process(config, worker, retries) for config in configs]
    with interrupt_on_termination(), _stopped_at_last(processes):
        while True:
            _start_waiting(processes, jobs)
            runs = [process.look() for process in processes]
            watch(runs)
            if all(process.ended for process in processes):
                return runs
            time.sleep(interval)


def _check_directories(configs: Sequence[TrainConfig]) -> None:
    seen: set[Path] = set()
    for config in configs:
        _refuse_another_run(config)
        if config.directory in seen:
            raise ValueError(f"two of the runs have the same output {str(config.directory)!r}")
        seen.add(config.directory)


def _refuse_another_run(config: TrainConfig) -> None:
    """A directory that cannot be read is that run's own trouble, once it is started."""
    try:
        RunDirectory(config.directory).open(config)
    except FileExistsError:
        raise
    except (OSError, ValueError):
        return


def _start_waiting(processes: Sequence["_Process"], jobs: int) -> None:
    free = jobs - sum(process.running for process in processes)
    for process in [process for process in processes if process.waits][: max(free, 0)]:
        process.start()


class _Process:
    """One worker, and what can be known about it from outside."""

    def __init__(self, config: TrainConfig, worker: Sequence[str], retries: int) -> None:
        self._config = config
        self._worker = list(worker)
        self._directory = RunDirectory(config.directory)
        self._process: subprocess.Popen[str] | None = None
        self._trouble: str | None = None
        self._stale: Status | None = None
        self._starts_left = 0 if self._directory.is_finished(config.steps) else 1 + retries

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def waits(self) -> bool:
        """To be started, for the first time or after a failure."""
        return self._starts_left > 0 and not self.running and not self._directory.is_finished(self._config.steps)

    @property
    def ended(self) -> bool:
        return not self.running and not self.waits

    def start(self) -> None:
        """Start the worker; what is in its way, a full disk or a damaged directory, is this run's trouble alone."""
        self._starts_left -= 1
        self._close_pipe()
        self._process = self._trouble = None
        try:
            self._start()
        except (OSError, ValueError) as error:
            self._trouble = f"cannot be started: {error}"

    def _start(self) -> None:
        self._directory.open(self._config)
        make_directory(self._directory.path)
        self._directory.refuse_links()
        self._stale = self._directory.read_status()
        with open(self._directory.log, "a", opener=_without_following) as log:
            # A session of its own: Ctrl-C reaches only us, and we end the workers in order.
            self._process = subprocess.Popen(
                self._worker,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Before torch loads: a pool as large as the machine in every process would choke it.
                env={**os.environ, "OMP_NUM_THREADS": str(self._config.threads)},
                start_new_session=True,
                text=True,
            )
        assert self._process.stdin is not None
        # A worker that is gone already cannot read; `look` will say why it went.
        with suppress(BrokenPipeError):
            # The pipe stays open: a worker ends when this process does, even when it is killed.
            self._process.stdin.write(self._config.to_json() + "\n")
            self._process.stdin.flush()

    def look(self) -> Run:
        status = self._directory.read_status() or Status(state="running", total_steps=self._config.steps)
        if self.waits:
            return Run(config=self._config, status=replace(status, state="waiting"))
        if self._trouble is not None:
            return Run(config=self._config, status=replace(status, state="failed", error=self._trouble))
        if self._process is not None:
            code = self._process.poll()
            if status == self._stale:
                # What an earlier session left; this one has not said anything yet.
                status = replace(status, state="running", error=None)
            if code is not None and status.state == "running":
                # It ended without saying so: a wrong config, or it was killed.
                status = replace(status, state="failed", error=self._last_words(code))
                self._note_failure(status)
        return Run(config=self._config, status=status)

    def _note_failure(self, status: Status) -> None:
        """Write it into the run, unless another process is at work there or the disk is full: the table says it too."""
        with suppress(OSError, ValueError):
            if self._directory.run.exists():
                with self._directory.locked(patience=None):
                    self._directory.finish(status)

    def stop(self) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(timeout=SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._close_pipe()

    def _close_pipe(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def ask_to_stop(self) -> None:
        if self._process is not None and self.running:
            self._process.terminate()

    def _last_words(self, code: int) -> str:
        if code < 0:
            return f"killed by {_signal_name(-code)}"
        lines = []
        # The whole directory may be gone.
        with suppress(OSError):
            lines = self._directory.log.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else f"exit code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have none
        return f"signal {number}"


def _without_following(path: str, flags: int) -> int:
    """Opens a file, but not one that a symbolic link leads to."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


@contextmanager
def _stopped_at_last(processes: Sequence[_Process]) -> Iterator[None]:
    try:
        yield
    finally:
        for process in processes:
            process.ask_to_stop()
        for process in processes:
            process.stop()
