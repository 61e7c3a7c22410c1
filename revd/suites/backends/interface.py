"""What the launcher knows of the places where runs are started: an interface that all of them have."""

from typing import Protocol

from revd.runs.config import TrainConfig


class Attempt(Protocol):
    """One try at one run, in a process somewhere. How far the run is stands in its own status file."""

    @property
    def running(self) -> bool:
        """Whether it has not ended yet, begun or not."""

    @property
    def queued(self) -> bool:
        """Whether it waits for room and nothing of it has begun."""

    @property
    def lost(self) -> bool:
        """Whether its machine ended it, and not the run itself. Only asked when it is not running."""

    def last_words(self) -> str:
        """Why it ended, where the status file does not say so. Only asked when it is not running."""

    def ask_to_stop(self) -> None:
        """Let the run write down that it was interrupted, and end; it can be gone on with."""

    def stop(self) -> None:
        """Wait a while for its end, then end it, and let go of all that belongs to it."""


class Backend(Protocol):
    """A place where runs are started."""

    def start(self, config: TrainConfig) -> Attempt:
        """Start or go on with a run. An OSError or ValueError says why this run cannot be started."""
