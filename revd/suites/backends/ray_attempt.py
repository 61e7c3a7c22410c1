"""The launcher's side of a run on a cluster: a conversation with the node that has it."""

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
from revd.suites.backends.background_lease import keeping
from revd.suites.backends.deferred_signals import uninterrupted
from revd.suites.backends.file_transfer import pack, unpack
from revd.suites.backends.local import SECONDS_TO_STOP, prepare_directory
from revd.suites.backends.node import SharedPath

#: Asks the node something. The answer comes later, or not at all: then the same is asked again.
Question = Callable[[], Any]
Conversation = Generator[Question, Any, str]
#: For what a node does beyond waiting for its run.
MARGIN = 5.0
#: Of what Ray says, in a table.
MOST_LETTERS = 200


class RayAttempt:
    """One try at a run. Whoever asks whether it is running moves the conversation on by an answer, if there is one.

    Args:
        host: The actor, `Host` on some node; Ray may not have found room for it yet.
        config: The run.
        fetch: Whether the node writes to its own disk, and the files are fetched.
    """

    def __init__(self, host: Any, config: TrainConfig, *, fetch: bool) -> None:
        self.queued = True
        self.lost = False
        self._begun = False
        self._host = host
        self._config = config
        self._directory = RunDirectory(config.directory)
        self._last_words: str | None = None
        self._talk = self._fetched() if fetch else self._shared()
        self._question = next(self._talk)
        self._answer = self._question()

    @property
    def running(self) -> bool:
        """Whether it waits for room on a node or has not ended there."""
        if self._last_words is None:
            # An interrupt in the middle of it would end the conversation, and with it the run.
            with uninterrupted():
                self._listen()
        return self._last_words is None

    def last_words(self) -> str:
        """Why it ended."""
        return self._last_words or "exit code 0"

    def ask_to_stop(self) -> None:
        """Interrupt the run; one that has not begun is given up."""
        if self._last_words is None:
            if self.queued:
                self._end("stopped before it began")
            else:
                self._host.ask_to_stop.remote()

    def stop(self) -> None:
        """Wait for the node to end the run, if need be by force; a node that does not answer is left to Ray."""
        if self._last_words is None and not self.queued:
            self._host.stop.remote()
        deadline = time.monotonic() + SECONDS_TO_STOP + MARGIN
        while not self.queued and self.running and time.monotonic() < deadline:
            time.sleep(0.02)
        self._end("it did not stop", leave=True)

    def _listen(self) -> None:
        try:
            if not ray.wait([self._answer], timeout=0)[0]:
                return
            self._question = self._talk.send(ray.get(self._answer))
            self._answer = self._question()
        except StopIteration as end:
            # Without a value: an error that nobody foresaw had ended the conversation.
            self._end(end.value or "the conversation broke off", leave=end.value is None)
        except ActorUnavailableError:
            # The connection is gone. The node may be too, which Ray will say once it is sure.
            self._answer = self._question()
        except RayTaskError as error:
            self._fail(error.cause)
        except RayError as error:
            self.lost = not (isinstance(error, RayActorError) and error.actor_init_failed)
            self._end(_one_line(error))
        except (OSError, ValueError, LeaseLostError) as error:
            # On this machine: a directory that cannot be written, or that another process has.
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._end(str(error) if self._begun else f"cannot be started: {error}", leave=True)

    def _end(self, words: str, *, leave: bool = False) -> None:
        """What ended it first is kept. With `leave`, the node may have the run, and is asked to clear it away."""
        if self._last_words is None:
            self._last_words = words
            self._talk.close()
            if leave and not self.queued:
                ray.wait([self._host.leave.remote()], timeout=MARGIN)
            ray.kill(self._host)

    def _shared(self) -> Conversation:
        """The node works in the run's own directory."""
        yield self._host.greet.remote
        prepare_directory(self._directory, self._config)
        with _marked(self._directory) as shared:
            self.queued = False
            yield partial(self._host.begin.remote, self._config, shared)
        self._begun = True
        while True:
            outlook = yield partial(self._host.look.remote, {})
            if not outlook.running:
                yield self._host.leave.remote
                return str(outlook.last_words)

    def _fetched(self) -> Conversation:
        """The node works on its own disk. What this machine has of the run is kept from others meanwhile."""
        yield self._host.greet.remote
        prepare_directory(self._directory, self._config)
        with keeping(self._directory) as lease:
            while not lease.done():
                yield self._host.greet.remote
            lease.result().check()
            self.queued = False
            # Put where the node can get it from, so that a question that is asked again does not send it again.
            files = ray.put(pack(self._directory.path, {}, ended=True))
            known = yield partial(self._host.begin.remote, self._config, files)
            del files
            self._begun = True
            while True:
                outlook = yield partial(self._host.look.remote, known)
                known = outlook.parcel.stamps
                if outlook.parcel.files:
                    lease.result().check()
                    unpack(outlook.parcel, self._directory.path)
                if not outlook.running:
                    yield self._host.leave.remote
                    return str(outlook.last_words)


@contextmanager
def _marked(directory: RunDirectory) -> Iterator[SharedPath]:
    """A file in the directory with a name that no other disk has; named as unfinished ones are, it cannot stay."""
    path = directory.path.absolute()
    mark = path / f".{secrets.randbits(63)}.{directory.log.name}"
    mark.touch(exist_ok=False)
    try:
        yield SharedPath(path=path, mark=mark)
    finally:
        mark.unlink(missing_ok=True)


def _one_line(error: RayError) -> str:
    """Ray explains over many lines, the last of which that does not begin with a tab says what happened."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith("\t")]
    line = lines[-1] if lines else type(error).__name__
    return line if len(line) <= MOST_LETTERS else line[: MOST_LETTERS - 1] + "…"
