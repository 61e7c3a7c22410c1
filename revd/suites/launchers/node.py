"""The node's side of a run on a cluster: it starts the run, reports on it, and stops it."""

import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from revd.runs.config import TrainConfig
from revd.suites.launchers.file_transfer import ChangedFiles, Stamp, apply_changes, collect_changes, file_stamps
from revd.suites.launchers.local import WORKER, LocalLauncher, WorkerProcess

#: How long a worker waits for a run that another process seems to hold. A node that lost the cluster ends its runs once
#: it notices, and the lease of a dead node expires.
SECONDS_TO_WAIT_FOR_RUN = 120.0


@dataclass(frozen=True, kw_only=True)
class SharedPath:
    """A run's directory that the node should see under the same path.

    Attributes:
        path: The directory.
        marker: A file in it that the launcher has just made.
    """

    path: Path
    marker: Path


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """The state of a run on its node.

    Attributes:
        running: Whether its process has not ended.
        end_reason: Why it ended.
        changes: The files that have changed; None if the launcher sees the directory.
    """

    running: bool
    end_reason: str
    changes: ChangedFiles | None


class NodeRun:
    """One run in a process of this node. Methods may be called twice, since replies get lost with connections.

    Args:
        worker: Command of the process; by default this node's.
        gpus: Whether the run has GPUs. If not, they are hidden from it, since Ray would show it all of them.
    """

    def __init__(self, worker: Sequence[str] | None = None, *, gpus: bool = False) -> None:
        self._worker = WORKER if worker is None else worker
        self._environment = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
        self._process: WorkerProcess | None = None
        self._own_disk: Path | None = None
        self._initial_stamps: dict[str, Stamp] = {}

    def hostname(self) -> str:
        """The node's name. A reply shows that there was room on the node."""
        return socket.gethostname()

    def start(self, config: TrainConfig, source: SharedPath | ChangedFiles) -> dict[str, Stamp]:
        """Start the run in a shared directory, or on this node's own disk with the files that it has so far.

        Returns the stamps of those files on this disk, for the first report.
        """
        if self._process is None:
            try:
                self._process = self._start(config, source)
            except BaseException:
                self.clean_up()
                raise
        return self._initial_stamps

    def _start(self, config: TrainConfig, source: SharedPath | ChangedFiles) -> WorkerProcess:
        if isinstance(source, SharedPath):
            directory = source.path
            if not source.marker.exists():
                raise ValueError(
                    f"{socket.gethostname()} does not see {str(directory)!r}: choose an output that all nodes share, "
                    "or have the files fetched with --fetch"
                )
        else:
            self._own_disk = Path(tempfile.mkdtemp(prefix="revd-"))
            directory = self._own_disk / "run"
            apply_changes(source, directory)
            self._initial_stamps = file_stamps(directory)
        command = (*self._worker, "--wait", str(SECONDS_TO_WAIT_FOR_RUN))
        return LocalLauncher(command, environment=self._environment).start(config, directory)

    def report(self, known: Mapping[str, Stamp]) -> NodeReport:
        """The state of the run, with the files that have changed since those with the stamps `known`."""
        assert self._process is not None
        running = self._process.running
        reason = "" if running else self._process.end_reason()
        changes = None if self._own_disk is None else collect_changes(self._own_disk / "run", known, ended=not running)
        return NodeReport(running=running, end_reason=reason, changes=changes)

    def ask_to_stop(self) -> None:
        """Interrupt the run."""
        if self._process is not None:
            self._process.ask_to_stop()

    def stop(self) -> None:
        """Wait for the run to end, and kill it if it does not."""
        if self._process is not None:
            self._process.stop()

    def clean_up(self) -> None:
        """End the run, if it has not ended, and delete it from this node's own disk."""
        self.ask_to_stop()
        self.stop()
        if self._own_disk is not None:
            shutil.rmtree(self._own_disk, ignore_errors=True)
            self._own_disk = None
