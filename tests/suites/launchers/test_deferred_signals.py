import signal
import threading

import pytest

from revd.suites.launchers.deferred_signals import defer_signals


def interrupt(done):
    with defer_signals():
        signal.raise_signal(signal.SIGINT)
        done.append("after the signal")


def test_an_interrupt_comes_afterwards():
    done = []
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        interrupt(done)
    assert done == ["after the signal"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_error_leaves_signals_as_they_were():
    with pytest.raises(ValueError, match="wrong"), defer_signals():
        raise ValueError("wrong")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_need_nothing():
    seen = []

    def look():
        with defer_signals():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
