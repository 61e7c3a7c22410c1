"""Files that are there whole or not at all, whatever happens while they are written."""

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
    """
    Gives another name to write to, and moves that file into place once it is complete and on disk.

    A reader finds the old file or the new one, and so does whoever comes after a crash or a power cut at any moment.
    The other name is random and was free: a link that waits for us there would lead our bytes elsewhere.
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
    """Make a directory, and those above it that are not there; their names are on disk like those of files."""
    new = [entry for entry in (path, *path.parents) if not entry.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for entry in new:
        sync(entry.parent)


def leftovers(directory: Path) -> list[Path]:
    """Unfinished files in a directory: those of killed processes, if nobody is writing there."""
    return [entry for entry in sorted(directory.glob(".*")) if _TEMPORARY.fullmatch(entry.name)]


def final_name(leftover: Path) -> str:
    """The name that an unfinished file was to get."""
    match = _TEMPORARY.fullmatch(leftover.name)
    assert match is not None
    return match[1]


def is_full_disk(error: BaseException) -> bool:
    """Whether an error says that there is no room left: on the disk, within a quota, or for a file of this size."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a directory's names, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network disks cannot do so with a directory, and say that they do not know what it means.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(descriptor)
