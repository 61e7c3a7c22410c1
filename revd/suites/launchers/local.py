"""Runs as processes of this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.storage.atomic import make_directory

#: Without -P, Python would import from the current directory first.
WORKER = (sys.executable, "-P", "-m", "revd.runs.worker")
SECONDS_TO_STOP = 10.0


class LocalLauncher:
    """Starts each run in a process of its own.

    Args:
        worker: Command of a process that reads a config from its standard input.
        environment: Variables of the process, in addition to those of this one.
    """

    def __init__(self, worker: Sequence[str] = WORKER, *, environment: Mapping[str, str] | None = None) -> None:
        self._worker = tuple(worker)
        self._environment = dict(environment or {})

    def start(self, config: TrainConfig, directory: Path | None = None) -> "WorkerProcess":
        """Start the worker, in `config.directory` or another directory.

        An OSError or ValueError if the run cannot start, as with a full disk or a symbolic link in its directory.
        """
        run = RunDirectory(directory or config.directory)
        prepare_directory(run)
        command = self._worker if directory is None else (*self._worker, "--directory", os.fspath(directory))
        with open(run.log, "a", opener=_open_without_following_links) as log:
            # In a session of its own, so that Ctrl-C does not reach it: `stop` ends the workers.
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Set before torch loads: otherwise every process would have as many threads as the machine has cores.
                env={**os.environ, "OMP_NUM_THREADS": str(config.torch_threads), **self._environment},
                start_new_session=True,
                text=True,
            )
        assert process.stdin is not None
        # A worker that has already ended does not read; `end_reason` explains why it ended.
        with suppress(BrokenPipeError):
            # The pipe stays open. When this process ends, even if it is killed, so does the worker.
            process.stdin.write(config.to_json() + "\n")
            process.stdin.flush()
        return WorkerProcess(process, run)


def prepare_directory(run: RunDirectory) -> None:
    """Make the directory of a run. A ValueError if it contains symbolic links."""
    make_directory(run.path)
    run.refuse_links()


class WorkerProcess:
    """A process that trains one run."""

    queued = False
    #: If a process of this machine was killed, its run has failed: it may be killed again.
    lost = False

    def __init__(self, process: subprocess.Popen[str], run: RunDirectory) -> None:
        self._process = process
        self._run = run

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def end_reason(self) -> str:
        """The signal that killed it, the last line of its log, or its exit code."""
        code = self._process.wait()
        if code < 0:
            return f"killed by {_signal_name(-code)}"
        lines = []
        # The directory may have been deleted.
        with suppress(OSError):
            lines = self._run.log.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else f"exit code {code}"

    def ask_to_stop(self) -> None:
        """Send SIGTERM, which interrupts the training."""
        if self.running:
            self._process.terminate()

    def stop(self) -> None:
        """Wait for its end, kill it after `SECONDS_TO_STOP`, and close the pipe to it."""
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
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _open_without_following_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
