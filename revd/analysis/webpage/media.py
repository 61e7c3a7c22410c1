"""Films and pictures in run directories: embedded in the page if they are small, else linked."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.grouping import setting
from revd.analysis.writing.markdown import link
from revd.storage.plain_file import read_plain

#: Most bytes of one embedded file, and of all together; a page of them should open at once.
MAX_BYTES = 4 * 2**20
MAX_ALL_BYTES = 16 * 2**20


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format that browsers show: its media type, and the bytes `mark` at `offset` of each file."""

    media_type: str
    mark: bytes
    offset: int = 0

    @property
    def is_video(self) -> bool:
        """Whether it is shown by a player."""
        return self.media_type.startswith("video/")


FORMATS: Mapping[str, Format] = {
    ".gif": Format(media_type="image/gif", mark=b"GIF8"),
    ".png": Format(media_type="image/png", mark=b"\x89PNG"),
    ".mp4": Format(media_type="video/mp4", mark=b"ftyp", offset=4),
}


@dataclass(frozen=True, kw_only=True)
class Medium:
    """A film or picture. `source` is a data URI; a file that is too large has only a relative `link`."""

    task: str
    method: str
    seed: int
    name: str
    megabytes: float
    link: str
    is_video: bool
    source: str | None


def find_media(runs: Sequence[RecordedRun], page: Path) -> list[Medium]:
    """The films and pictures of all runs, those of the smallest seeds first, for these are the ones embedded."""
    left = MAX_ALL_BYTES
    found = []
    for run in sorted(runs, key=lambda run: run.seed):
        for path in sorted(run.directory.glob("*")):
            medium = _load(path, run, page, left)
            if medium is not None:
                found.append(medium)
                left -= path.stat().st_size if medium.source is not None else 0
    return found


def data_uri(data: bytes, media_type: str) -> str:
    """The content of a file as a URI."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def _load(path: Path, run: RecordedRun, page: Path, left: int) -> Medium | None:
    """Load one file; None if it is no film or picture.

    Links are not followed and the first bytes are checked, since an untrusted run could otherwise place any file of the
    reader in the page.
    """
    kind = FORMATS.get(path.suffix.lower())
    if kind is None or path.is_symlink() or not path.is_file() or not _starts_as(path, kind):
        return None
    size = path.stat().st_size
    return Medium(
        task=setting(run),
        method=run.label,
        seed=run.seed,
        name=path.name,
        megabytes=size / 2**20,
        link=link(path, page),
        is_video=kind.is_video,
        source=data_uri(read_plain(path), kind.media_type) if size <= min(left, MAX_BYTES) else None,
    )


def _starts_as(path: Path, kind: Format) -> bool:
    with path.open("rb") as file:
        start = file.read(kind.offset + len(kind.mark))
    return start[kind.offset :] == kind.mark
