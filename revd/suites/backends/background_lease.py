"""A run's directory, kept from others without waiting for it."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager

from revd.runs.directory import RunDirectory
from revd.runs.lease import GLANCE, Lease


@contextmanager
def keeping(directory: RunDirectory) -> Iterator[Future[Lease]]:
    """
    Lock a directory from a thread of its own, where a holder that may be dead is waited for.

    The lease comes at once or once that holder has been silent for long enough; a FileExistsError in its place says who
    has the directory.
    """
    held: Future[Lease] = Future()
    over = threading.Event()
    keeper = threading.Thread(target=_keep, args=(directory, held, over), name="keeping", daemon=True)
    keeper.start()
    try:
        # Mostly there is nobody to wait for.
        wait([held], timeout=GLANCE)
        yield held
    finally:
        over.set()
        # A thread that still waits lets go of the lease as soon as it gets it.
        if held.done():
            keeper.join()


def _keep(directory: RunDirectory, held: Future[Lease], over: threading.Event) -> None:
    try:
        with directory.locked() as lease:
            held.set_result(lease)
            over.wait()
    except Exception as error:
        held.set_exception(error)
