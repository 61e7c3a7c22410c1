"""Transfer of a run's changed files from a disk that the launcher does not see."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from revd.runs.directory import RunDirectory
from revd.storage.atomic import make_directory, write_whole

#: Modification time and size of a file, which show that it has changed.
Stamp = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class ChangedFiles:
    """Files of a run that have changed.

    Attributes:
        files: Their bytes by names relative to the run's directory, in the order in which they must be written: rows
            before the checkpoint that needs them, the status last. Then the directory can be resumed from any moment.
        stamps: Stamps of all files that have been transferred so far.
        is_complete: Whether files that are not in `stamps` are no longer part of the run.
    """

    files: Mapping[str, bytes]
    stamps: Mapping[str, Stamp]
    is_complete: bool


def collect_changes(path: Path, known: Mapping[str, Stamp], *, ended: bool) -> ChangedFiles:
    """Read the files that have changed since those with the stamps `known` were transferred.

    While the run trains, these are only the small files with its status; with each new checkpoint, all files.
    """
    run = RunDirectory(path)
    # Read first and only once: it must not be newer than the other files, which may change meanwhile.
    status = _read(run.status)
    small = [run.status, run.run, run.config]
    checkpoints = _plain_files(run.checkpoints.path)
    is_new = any(_name(path, checkpoint) not in known for checkpoint in checkpoints)
    is_complete = ended or is_new or _has_ended(status)
    rest = [file for file in _plain_files(path) if file not in small] if is_complete else []
    files, stamps = {}, {} if is_complete else dict(known)
    for file in (*small, *(checkpoints if is_complete else ()), *rest):
        name = _name(path, file)
        found = status if file == run.status else _read(file, unless=known.get(name))
        # A file may not exist yet, and old checkpoints are deleted.
        if found is not None:
            stamps[name], data = found
            if known.get(name) != stamps[name]:
                files[name] = data
    return ChangedFiles(files=dict(reversed(files.items())), stamps=stamps, is_complete=is_complete)


def file_stamps(path: Path) -> dict[str, Stamp]:
    """The stamps of a run's files as they are now."""
    files = (*_plain_files(path), *_plain_files(RunDirectory(path).checkpoints.path))
    return {_name(path, file): _stamp(file.stat()) for file in files}


def apply_changes(changes: ChangedFiles, path: Path) -> None:
    """Write the changed files into a run's directory, and delete old checkpoints."""
    for name, data in changes.files.items():
        make_directory((path / name).parent)
        write_whole(path / name, data)
    if changes.is_complete:
        for checkpoint in _plain_files(RunDirectory(path).checkpoints.path):
            if _name(path, checkpoint) not in changes.stamps:
                checkpoint.unlink()


def _plain_files(directory: Path) -> list[Path]:
    """Files of a run, without leases and unfinished files, which are of no use on another machine."""
    if not directory.is_dir():
        return []
    return [
        file
        for file in sorted(directory.iterdir())
        if file.is_file() and not file.is_symlink() and not file.name.startswith(".")
    ]


def _name(path: Path, file: Path) -> str:
    return file.relative_to(path).as_posix()


def _read(file: Path, *, unless: Stamp | None = None) -> tuple[Stamp, bytes] | None:
    """A file's stamp and its bytes, which are left out if the stamp is `unless`; None if there is no file."""
    with suppress(FileNotFoundError), file.open("rb") as opened:
        # The stamp first: bytes that are written during the read are then found to be new the next time.
        stamp = _stamp(os.fstat(opened.fileno()))
        return stamp, b"" if stamp == unless else opened.read()
    return None


def _has_ended(status: tuple[Stamp, bytes] | None) -> bool:
    """Whether a run's status says that it has ended; False if it is damaged."""
    try:
        return status is not None and bool(json.loads(status[1])["state"] != "running")
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_mtime_ns, found.st_size
