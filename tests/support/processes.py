"""The state of processes, and waiting for them without leaving any behind."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def until(
    happened: Callable[[], object], *, seconds: float = 60.0, process: subprocess.Popen[Any] | None = None
) -> None:
    """Wait for another process or thread; fail after the given seconds, or once the process has ended."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert process is None or process.poll() is None, f"process {process.pid} has ended too early"
        assert time.monotonic() < deadline, f"nothing has happened for {seconds:.0f} seconds"
        time.sleep(0.01)


@contextmanager
def ended(process: subprocess.Popen[Any]) -> Iterator[list[int]]:
    """
    Kill a process at the end of the block, and its descendants, however the block ends: by a time limit too.

    Descendants are lost sight of once a process is gone. The list is for those that it had before it was killed.
    """
    others: list[int] = []
    try:
        yield others
    finally:
        for pid in {*process_tree(process.pid), *others}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def alive(pid: int) -> bool:
    """Whether a process is running. A zombie is not."""
    return _stat(pid)[:1] not in ([], ["Z"])


def process_tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    numbers = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    children = [number for number in numbers if _stat(number)[1:2] == [str(pid)]]
    return [pid, *(member for child in children for member in process_tree(child))]


def _stat(pid: int) -> list[str]:
    """State, parent and more; nothing if there is no such process."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []
