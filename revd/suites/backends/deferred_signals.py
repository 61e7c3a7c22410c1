"""Moments that an interrupt must not cut in two."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Have what SIGINT and SIGTERM do happen afterwards; threads other than the main one never hear them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        came.append(number)

    with ExitStack() as afterwards:
        afterwards.callback(_deliver, came)
        for number in _SIGNALS:
            # In this order, so that a signal in between leaves nothing changed.
            afterwards.callback(signal.signal, number, signal.getsignal(number))
            signal.signal(number, remember)
        yield


def _deliver(numbers: list[int]) -> None:
    for number in numbers:
        signal.raise_signal(number)
