"""Code that an interrupt must not cut short."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Handle SIGINT and SIGTERM after the context. Has no effect outside the main thread, which receives them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        received.append(number)

    with ExitStack() as at_exit:
        at_exit.callback(_raise_signals, received)
        for number in _SIGNALS:
            # In this order, so that a signal between the two lines still restores the handler.
            at_exit.callback(signal.signal, number, signal.getsignal(number))
            signal.signal(number, remember)
        yield


def _raise_signals(numbers: list[int]) -> None:
    for number in numbers:
        signal.raise_signal(number)
