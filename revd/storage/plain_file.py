"""Reading files that somebody else wrote: what is no ordinary file must not hang its reader."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_plain(path: Path) -> bytes:
    """The bytes of an ordinary file; a ValueError for a directory, a FIFO, a socket or a device."""
    _require_plain(path, os.stat(path).st_mode)
    # Looked at again once it is open, which does not wait for the writer of a FIFO that came in between.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        _require_plain(path, os.fstat(descriptor).st_mode)
        return file.read()


def read_plain_text(path: Path) -> str:
    """The text of an ordinary file, with a replacement character for what is no UTF-8."""
    return read_plain(path).decode(errors="replace")


def _require_plain(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "no ordinary file")
        raise ValueError(f"{path.name} is {kind}; it must be a file")
