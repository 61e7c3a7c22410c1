"""Runs as processes of this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.storage.atomic import make_directory

#: Without -P, Python would import from the current directory first.
WORKER = (sys.executable, "-P", "-m", "revd.runs.worker")
SECONDS_TO_STOP = 10.0


class LocalBackend:
    """Starts each run in a process of its own.

    Args:
        worker: The command of a process that reads a config from its standard input.
        environment: Variables of the process, over those of this one.
    """

    def __init__(self, worker: Sequence[str] = WORKER, *, environment: Mapping[str, str] | None = None) -> None:
        self._worker = list(worker)
        self._environment = dict(environment or {})

    def start(self, config: TrainConfig) -> "WorkerProcess":
        """Start the worker. An OSError or ValueError says what is in its way: a full disk, a damaged directory."""
        directory = RunDirectory(config.directory)
        prepare_directory(directory, config)
        with open(directory.log, "a", opener=_without_following) as log:
            # A session of its own: Ctrl-C reaches only us, and we end the workers in order.
            process = subprocess.Popen(
                self._worker,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Before torch loads: a pool as large as the machine in every process would choke it.
                env={**os.environ, "OMP_NUM_THREADS": str(config.torch_threads), **self._environment},
                start_new_session=True,
                text=True,
            )
        assert process.stdin is not None
        # A worker that is gone already cannot read; its last words will say why it went.
        with suppress(BrokenPipeError):
            # The pipe stays open: a worker ends when this process does, even when it is killed.
            process.stdin.write(config.to_json() + "\n")
            process.stdin.flush()
        return WorkerProcess(process, directory)


def prepare_directory(directory: RunDirectory, config: TrainConfig) -> None:
    """Make the directory of a run, and refuse one that holds another run or leads elsewhere."""
    directory.open(config)
    make_directory(directory.path)
    directory.refuse_links()


class WorkerProcess:
    """A worker that was started, and what can be known about it from outside."""

    queued = False
    #: A process of this machine that was killed may be killed again: that is the run's own trouble.
    lost = False

    def __init__(self, process: subprocess.Popen[str], directory: RunDirectory) -> None:
        self._process = process
        self._directory = directory

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    def last_words(self) -> str:
        """The signal that killed it, the last line of its log, or its exit code."""
        code = self._process.wait()
        if code < 0:
            return f"killed by {_signal_name(-code)}"
        lines = []
        # The whole directory may be gone.
        with suppress(OSError):
            lines = self._directory.log.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else f"exit code {code}"

    def ask_to_stop(self) -> None:
        """Terminate it, which it takes as an interrupt."""
        if self.running:
            self._process.terminate()

    def stop(self) -> None:
        """Wait for its end, kill it if it does not come, and close the pipe to it."""
        try:
            self._process.wait(timeout=SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):
                self._process.stdin.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have none
        return f"signal {number}"


def _without_following(path: str, flags: int) -> int:
    """Opens a file, but not one that a symbolic link leads to."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
