"""SIGTERM handled as Ctrl-C is, so that a terminated run records that it was interrupted."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupt_on_termination() -> Iterator[None]:
    """Raise a KeyboardInterrupt on SIGTERM. Has no effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
