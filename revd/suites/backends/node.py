"""The node's side of a run on a cluster: what the launcher asks it, and what it answers."""

import os
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from revd.runs.config import TrainConfig
from revd.suites.backends.file_transfer import Parcel, Stamp, all_stamps, elsewhere, pack, unpack
from revd.suites.backends.local import WORKER, LocalBackend, WorkerProcess

#: How long a run that seems to be held by another process is waited for: a node that lost the cluster ends its runs
#: once it knows, and the lease of a dead one runs out.
PATIENCE = 120.0


@dataclass(frozen=True, kw_only=True)
class SharedPath:
    """A run's directory that the node should see under the same path.

    Attributes:
        path: The directory.
        mark: A file in it that the launcher has just made.
    """

    path: Path
    mark: Path


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """How a run is doing.

    Attributes:
        running: Whether its process has not ended yet.
        last_words: Why it ended.
        parcel: What has changed in its directory, if the launcher does not see it.
    """

    running: bool
    last_words: str
    parcel: Parcel | None


class Host:
    """One run in a process of this node. Questions may come twice: answers get lost with connections.

    Args:
        worker: The command of the process; this node's own if it is not given.
        gpus: Whether the run has GPUs; without, it sees none, where Ray would let it see them all.
    """

    def __init__(self, worker: Sequence[str] | None = None, *, gpus: bool = False) -> None:
        self._worker = WORKER if worker is None else worker
        self._environment = {} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
        self._attempt: WorkerProcess | None = None
        self._own: Path | None = None
        self._brought: dict[str, Stamp] = {}

    def greet(self) -> str:
        """The node has room: its name."""
        return socket.gethostname()

    def begin(self, config: TrainConfig, source: SharedPath | Parcel) -> dict[str, Stamp]:
        """Start the run where the launcher sees it, or on this node's own disk with the files it has so far.

        The answer: the stamps of those files as they are here, for the first look.
        """
        if self._attempt is None:
            try:
                self._attempt = self._start(config, source)
            except BaseException:
                self.leave()
                raise
        return self._brought

    def _start(self, config: TrainConfig, source: SharedPath | Parcel) -> WorkerProcess:
        if isinstance(source, SharedPath):
            place = source.path
            if not source.mark.exists():
                raise ValueError(
                    f"{socket.gethostname()} does not see {str(place)!r}: choose an output that all nodes share, or "
                    "have the files fetched with --fetch"
                )
        else:
            self._own = Path(tempfile.mkdtemp(prefix="revd-"))
            place = self._own / "run"
            unpack(source, place)
            self._brought = all_stamps(place)
        command = (*self._worker, "--place", os.fspath(place), "--patience", str(PATIENCE))
        return LocalBackend(command, environment=self._environment).start(elsewhere(config, place))

    def look(self, known: Mapping[str, Stamp]) -> Outlook:
        """How the run is doing, with what has changed since the files of the stamps `known`."""
        assert self._attempt is not None
        running = self._attempt.running
        words = "" if running else self._attempt.last_words()
        parcel = None if self._own is None else pack(self._own / "run", known, ended=not running)
        return Outlook(running=running, last_words=words, parcel=parcel)

    def ask_to_stop(self) -> None:
        """Interrupt the run."""
        if self._attempt is not None:
            self._attempt.ask_to_stop()

    def stop(self) -> None:
        """End the run, if need be by force."""
        if self._attempt is not None:
            self._attempt.stop()

    def leave(self) -> None:
        """End the run, if it has not ended, and delete it from this node's own disk."""
        self.ask_to_stop()
        self.stop()
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)
            self._own = None
