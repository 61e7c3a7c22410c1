"""The lease of a run's directory, acquired in a background thread."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager

from revd.runs.directory import RunDirectory
from revd.runs.lease import SECONDS_BETWEEN_LOOKS, Lease


@contextmanager
def lease_in_background(run: RunDirectory) -> Iterator[Future[Lease]]:
    """Lock a run's directory in a thread, which waits there if another machine's process may still hold it.

    The future gives the lease, or raises a FileExistsError that names the holder.
    """
    acquired: Future[Lease] = Future()
    release = threading.Event()
    thread = threading.Thread(target=_hold, args=(run, acquired, release), name="background-lease", daemon=True)
    thread.start()
    try:
        # Usually there is no other holder, and the lease is there at once.
        wait([acquired], timeout=SECONDS_BETWEEN_LOOKS)
        yield acquired
    finally:
        release.set()
        # A thread that still waits releases the lease as soon as it gets it.
        if acquired.done():
            thread.join()


def _hold(run: RunDirectory, acquired: Future[Lease], release: threading.Event) -> None:
    try:
        with run.locked() as lease:
            acquired.set_result(lease)
            release.wait()
    except Exception as error:
        acquired.set_exception(error)
