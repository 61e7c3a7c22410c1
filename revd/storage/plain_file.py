"""Reading untrusted files.

Only regular files are read, because a FIFO or a device could block the reader.
"""

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
    """Read the bytes of a regular file; a ValueError for a directory, a FIFO, a socket or a device."""
    _require_plain(path, os.stat(path).st_mode)
    # Checked again once it is open. O_NONBLOCK: opening a FIFO that was put there in between must not block.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        _require_plain(path, os.fstat(descriptor).st_mode)
        return file.read()


def read_plain_text(path: Path) -> str:
    """Read the text of a regular file; invalid UTF-8 becomes replacement characters."""
    return read_plain(path).decode(errors="replace")


def _require_plain(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "not a regular file")
        raise ValueError(f"{path.name} is {kind}; it must be a file")
