"""The interface of launchers, as the scheduler uses it."""

from typing import Protocol

from revd.runs.config import TrainConfig


class Attempt(Protocol):
    """One try at one run, in a process somewhere. The run's own status file says how far it is."""

    @property
    def running(self) -> bool:
        """Whether it has not ended, started or not."""

    @property
    def queued(self) -> bool:
        """Whether it still waits for room on a machine."""

    @property
    def lost(self) -> bool:
        """Whether its machine was lost, rather than the run failing. Valid only once it is not running."""

    def end_reason(self) -> str:
        """Why it ended, for a run whose status file does not tell. Valid only once it is not running."""

    def ask_to_stop(self) -> None:
        """Interrupt the run, which records it and ends. It can be resumed."""

    def stop(self) -> None:
        """Wait some time for its end, then end it, and release its resources."""


class Launcher(Protocol):
    """Starts runs on one or more machines."""

    def start(self, config: TrainConfig) -> Attempt:
        """Start or resume a run whose directory was checked. An OSError or ValueError if this run cannot start."""
