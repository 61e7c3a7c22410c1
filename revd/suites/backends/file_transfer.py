"""Runs on a disk that the launcher does not see: their files travel as parcels, changed ones only."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.storage.atomic import make_directory, write_whole

#: What tells that a file has changed: when it did, and its size.
Stamp = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Elsewhere(TrainConfig):
    """The same training, kept at another place than its config says; what it writes about itself is the same."""

    place: Path

    @property
    def directory(self) -> Path:
        """Where it is kept."""
        return self.place


def elsewhere(config: TrainConfig, place: Path) -> Elsewhere:
    """The training, kept at `place`."""
    return Elsewhere(**{entry.name: getattr(config, entry.name) for entry in fields(TrainConfig)}, place=place)


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """
    Files of a run.

    Attributes:
        files: Their bytes by names relative to the run's directory, in the order in which they are to be written: rows
            before the checkpoint that stands for them, the status last. So a directory is that of a run at any moment.
        stamps: Of all files of the run that have travelled so far.
        is_whole: Whether files that are not in `stamps` are no longer part of the run.
    """

    files: Mapping[str, bytes]
    stamps: Mapping[str, Stamp]
    is_whole: bool


def pack(path: Path, known: Mapping[str, Stamp], *, ended: bool) -> Parcel:
    """
    What has changed in a run's directory since the parcel with the stamps `known`.

    While the run goes on, only the small files that say how far it is, and everything with each new checkpoint.
    """
    directory = RunDirectory(path)
    # Read once and before all else: it speaks of nothing that the parcel lacks, whatever the run writes meanwhile.
    status = _read(directory.status)
    small = [directory.status, directory.run, directory.config]
    checkpoints = _plain_files(directory.checkpoints.path)
    is_new = any(_name(path, checkpoint) not in known for checkpoint in checkpoints)
    is_whole = ended or is_new or _has_ended(status)
    rest = [file for file in _plain_files(path) if file not in small] if is_whole else []
    files, stamps = {}, {} if is_whole else dict(known)
    for file in (*small, *(checkpoints if is_whole else ()), *rest):
        name = _name(path, file)
        found = status if file == directory.status else _read(file, unless=known.get(name))
        # Some are not there yet, and old checkpoints go.
        if found is not None:
            stamps[name], data = found
            if known.get(name) != stamps[name]:
                files[name] = data
    return Parcel(files=dict(reversed(files.items())), stamps=stamps, is_whole=is_whole)


def all_stamps(path: Path) -> dict[str, Stamp]:
    """Those of a run's files as they are now."""
    files = (*_plain_files(path), *_plain_files(RunDirectory(path).checkpoints.path))
    return {_name(path, file): _stamp(file.stat()) for file in files}


def unpack(parcel: Parcel, path: Path) -> None:
    """Bring a run's directory to where the parcel's was."""
    for name, data in parcel.files.items():
        make_directory((path / name).parent)
        write_whole(path / name, data)
    if parcel.is_whole:
        for checkpoint in _plain_files(RunDirectory(path).checkpoints.path):
            if _name(path, checkpoint) not in parcel.stamps:
                checkpoint.unlink()


def _plain_files(directory: Path) -> list[Path]:
    """Files of a run's directory; leases and unfinished files belong to the machine they are on."""
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
    """A file's stamp and its bytes, without them if the stamp is `unless`; None if it is not there."""
    with suppress(FileNotFoundError), file.open("rb") as opened:
        # The stamp first: bytes that come while they are read are found to be new the next time.
        stamp = _stamp(os.fstat(opened.fileno()))
        return stamp, b"" if stamp == unless else opened.read()
    return None


def _has_ended(status: tuple[Stamp, bytes] | None) -> bool:
    """Whether a run's status says that it is over; a damaged one says nothing."""
    try:
        return status is not None and bool(json.loads(status[1])["state"] != "running")
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_mtime_ns, found.st_size
