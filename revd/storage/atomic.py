"""Replacing files atomically: after a crash there is either the old file or the new one."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TEMPORARY = re.compile(r"\.\d+\.(.+)")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; then flush that file to disk and move it to `path`.

    A reader finds the old file or the new one, also after a crash or a power cut. The temporary name is random and must
    be unused, so that nobody can place a symbolic link there in advance.
    """
    temporary = path.with_name(f".{secrets.randbits(63)}.{path.name}")
    temporary.open("xb").close()
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file's content."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def make_directory(path: Path) -> None:
    """Make a directory and its missing parents, and flush their names to disk."""
    new = [entry for entry in (path, *path.parents) if not entry.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for entry in new:
        sync(entry.parent)


def leftovers(directory: Path) -> list[Path]:
    """Temporary files in a directory; unless a process is writing there, killed processes left them."""
    return [entry for entry in sorted(directory.glob(".*")) if _TEMPORARY.fullmatch(entry.name)]


def final_name(leftover: Path) -> str:
    """The final name of a temporary file."""
    match = _TEMPORARY.fullmatch(leftover.name)
    assert match is not None
    return match[1]


def is_full_disk(error: BaseException) -> bool:
    """Whether an error means that the disk is full, or that a quota or size limit is reached."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def sync(path: Path) -> None:
    """Flush the content of a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems do not support this for directories.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(descriptor)
