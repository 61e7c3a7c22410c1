"""The launcher's side of a run on a cluster: remote calls to its node, one after the other."""

import secrets
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayError, RayTaskError

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.lease import LeaseLostError
from revd.suites.launchers.background_lease import lease_in_background
from revd.suites.launchers.deferred_signals import defer_signals
from revd.suites.launchers.file_transfer import apply_changes, collect_changes
from revd.suites.launchers.local import SECONDS_TO_STOP, prepare_directory
from revd.suites.launchers.node import SharedPath

#: A call of one of the node's methods. If the reply is lost, the call is repeated.
RemoteCall = Callable[[], Any]
#: Yields remote calls, receives their replies, and returns why the run ended.
CallSequence = Generator[RemoteCall, Any, str]
#: Time for the node's work besides waiting for its run.
SECONDS_FOR_REPLY = 5.0
#: Length of Ray's messages in a table.
MAX_MESSAGE_LENGTH = 200


class RayAttempt:
    """One try at a run. Each look at `running` handles the last call's reply, if there is one, and makes the next call.

    Args:
        node_run: The actor, a `NodeRun`, for which Ray may not have found a node yet.
        config: The run.
        fetch: Whether the node writes to its own disk, and the files are fetched.
    """

    def __init__(self, node_run: Any, config: TrainConfig, *, fetch: bool) -> None:
        self.queued = True
        self.lost = False
        self._started = False
        self._node_run = node_run
        self._config = config
        self._run = RunDirectory(config.directory)
        self._end_reason: str | None = None
        self._calls = self._run_with_fetched_files() if fetch else self._run_in_shared_directory()
        self._call = next(self._calls)
        self._reply = self._call()

    @property
    def running(self) -> bool:
        """Whether it waits for room on a node, or has not ended there."""
        if self._end_reason is None:
            # An interrupt inside it would close the generator, and so end the run.
            with defer_signals():
                self._handle_reply()
        return self._end_reason is None

    def end_reason(self) -> str:
        """Why it ended."""
        return self._end_reason or "exit code 0"

    def ask_to_stop(self) -> None:
        """Interrupt the run, or give it up if it has not started."""
        if self._end_reason is None:
            if self.queued:
                self._end("stopped before it started")
            else:
                self._node_run.ask_to_stop.remote()

    def stop(self) -> None:
        """Wait for the node to end the run, or to kill it. If the node does not reply, kill its actor."""
        if self._end_reason is None and not self.queued:
            self._node_run.stop.remote()
        deadline = time.monotonic() + SECONDS_TO_STOP + SECONDS_FOR_REPLY
        while not self.queued and self.running and time.monotonic() < deadline:
            time.sleep(0.02)
        self._end("it did not stop", clean_up=True)

    def _handle_reply(self) -> None:
        try:
            if not ray.wait([self._reply], timeout=0)[0]:
                return
            self._call = self._calls.send(ray.get(self._reply))
            self._reply = self._call()
        except StopIteration as end:
            # Without a value if an unexpected error had closed the generator before.
            self._end(end.value or "the launcher failed", clean_up=end.value is None)
        except ActorUnavailableError:
            # The connection is lost. If the node is lost too, Ray reports it later.
            self._reply = self._call()
        except RayTaskError as error:
            self._fail(error.cause)
        except RayError as error:
            self.lost = not (isinstance(error, RayActorError) and error.actor_init_failed)
            self._end(_one_line(error))
        except (OSError, ValueError, LeaseLostError) as error:
            # On this machine: the directory cannot be written, or another process holds it.
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._end(str(error) if self._started else f"cannot be started: {error}", clean_up=True)

    def _end(self, reason: str, *, clean_up: bool = False) -> None:
        """End the attempt, keeping the first reason. With `clean_up`, the node may still have the run."""
        if self._end_reason is None:
            self._end_reason = reason
            self._calls.close()
            if clean_up and not self.queued:
                ray.wait([self._node_run.clean_up.remote()], timeout=SECONDS_FOR_REPLY)
            ray.kill(self._node_run)

    def _run_in_shared_directory(self) -> CallSequence:
        yield self._node_run.hostname.remote
        prepare_directory(self._run)
        with _marker(self._run) as shared:
            self.queued = False
            yield partial(self._node_run.start.remote, self._config, shared)
        self._started = True
        while True:
            report = yield partial(self._node_run.report.remote, {})
            if not report.running:
                yield self._node_run.clean_up.remote
                return str(report.end_reason)

    def _run_with_fetched_files(self) -> CallSequence:
        """The node works on its own disk, while this process holds the lease of the run's directory here."""
        yield self._node_run.hostname.remote
        prepare_directory(self._run)
        with lease_in_background(self._run) as lease:
            while not lease.done():
                yield self._node_run.hostname.remote
            lease.result().check()
            self.queued = False
            # In Ray's object store, so that a repeated call does not send the files again.
            files = ray.put(collect_changes(self._run.path, {}, ended=True))
            known = yield partial(self._node_run.start.remote, self._config, files)
            del files
            self._started = True
            while True:
                report = yield partial(self._node_run.report.remote, known)
                known = report.changes.stamps
                if report.changes.files:
                    lease.result().check()
                    apply_changes(report.changes, self._run.path)
                if not report.running:
                    yield self._node_run.clean_up.remote
                    return str(report.end_reason)


@contextmanager
def _marker(run: RunDirectory) -> Iterator[SharedPath]:
    """A file with a random name in the run's directory, which a node finds only if it sees the same disk.

    It is named as unfinished files are, so that it is deleted if this process is killed.
    """
    path = run.path.absolute()
    marker = path / f".{secrets.randbits(63)}.{run.log.name}"
    marker.touch(exist_ok=False)
    try:
        yield SharedPath(path=path, marker=marker)
    finally:
        marker.unlink(missing_ok=True)


def _one_line(error: RayError) -> str:
    """Shorten Ray's message to its last line that does not begin with a tab, which names the cause."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith("\t")]
    line = lines[-1] if lines else type(error).__name__
    return line if len(line) <= MAX_MESSAGE_LENGTH else line[: MAX_MESSAGE_LENGTH - 1] + "…"
