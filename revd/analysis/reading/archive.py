"""Archives of runs: one compressed CSV file, small enough for git, that is read like run directories.

The first line names the format. Then there is one line for each run, `#` and a JSON object: what `config.json`,
`status.json` and `run.json` said. The rows after that are bins of a run's steps: the step at which a bin ends, the
number of episodes that ended in it, and their mean return. `pandas.read_csv(path, comment="#")` reads them too.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from revd.analysis.reading.runs import BONUS_COLUMNS, RecordedRun
from revd.analysis.reading.values import require_finite, require_natural, require_probability, require_text
from revd.episodes import Episodes
from revd.former_defaults import with_former_yielding
from revd.storage.plain_file import read_plain

#: What the name of an archive ends with.
ENDING = ".csv.gz"
FORMAT = "# revd runs, format 1"
COLUMNS = ("run", "task", "method", "seed", "steps", "episodes", "return")
# Limits of what an untrusted file may fill the memory with.
_MAX_BYTES = 2**29
_MAX_EPISODES = 10**8

Bin = tuple[int, int, float]


def is_archive(path: Path) -> bool:
    """Whether a path is a file that is named like an archive."""
    return path.name.endswith(ENDING) and path.is_file()


def name_in_archive(directory: Path) -> str | None:
    """The name that an archived run has in its archive; None for a run with a directory of its own."""
    archive = next((parent for parent in directory.parents if is_archive(parent)), None)
    return None if archive is None else directory.relative_to(archive).as_posix()


def read_archive(path: Path) -> list[RecordedRun]:
    """Read all runs of an archive; a ValueError says what is wrong with it.

    The episodes of a bin all have its mean return, and ended at its last step.
    """
    try:
        lines = _read_text(path).splitlines()
        if not lines or lines[0] != FORMAT:
            raise ValueError(f"its first line must be {FORMAT!r}, got {(lines or [''])[0][:80]!r}")
        headers, rows = _split(lines)
        bins = _read_bins(headers, rows, first_line=len(headers) + 2)
        if sum(count for found in bins.values() for _, count, _ in found) > _MAX_EPISODES:
            raise ValueError(f"it has more than {_MAX_EPISODES:,} episodes")
        return [_run(path, header, bins[name]) for name, header in headers.items()]
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is no valid archive of runs: {error}") from error


def _read_text(path: Path) -> str:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(read_plain(path))) as file:
            data = file.read(_MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"it cannot be decompressed, so it was cut off or changed ({error})") from error
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES:,} bytes")
    return data.decode()


def _split(lines: Sequence[str]) -> tuple[dict[str, Mapping[str, Any]], Sequence[str]]:
    """The objects of all runs by name, and the lines of the table."""
    headers: dict[str, Mapping[str, Any]] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.startswith("#"):
            return headers, lines[number - 1 :]
        header = _parse_header(line, number)
        name = _take(header, "run", _require_relative)
        if name in headers:
            raise ValueError(f"line {number} is a second run {name!r}")
        headers[name] = header
    raise ValueError("it has no table")


def _parse_header(line: str, number: int) -> Mapping[str, Any]:
    try:
        header = json.loads(line[1:])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number} is no JSON ({error})") from error
    if not isinstance(header, dict):
        raise ValueError(f"line {number} must be a JSON object")
    return header


def _read_bins(
    headers: Mapping[str, Mapping[str, Any]], lines: Sequence[str], *, first_line: int
) -> dict[str, list[Bin]]:
    """The bins of each run, in order."""
    rows = csv.reader(lines, strict=True)
    bins: dict[str, list[Bin]] = {name: [] for name in headers}
    try:
        if tuple(columns := next(rows)) != COLUMNS:
            raise ValueError(f"the columns must be {', '.join(COLUMNS)}, got {', '.join(columns)}")
        for number, cells in enumerate(rows, start=first_line + 1):
            _add_bin(bins, headers, cells, number)
    except csv.Error as error:
        raise ValueError(f"the table cannot be read ({error})") from error
    return bins


def _add_bin(
    bins: dict[str, list[Bin]], headers: Mapping[str, Mapping[str, Any]], cells: Sequence[str], number: int
) -> None:
    if len(cells) != len(COLUMNS) or cells[0] not in headers:
        raise ValueError(f"line {number} is not a row of {len(COLUMNS)} values about one of the runs above")
    header, found = headers[cells[0]], bins[cells[0]]
    if list(cells[1:4]) != [str(header.get(name)) for name in COLUMNS[1:4]]:
        raise ValueError(f"line {number} has another task, method or seed than its run {cells[0]!r}")
    try:
        steps, count, mean = int(cells[4]), int(cells[5]), require_finite("return", float(cells[6]))
    except ValueError as error:
        raise ValueError(f"line {number} has a wrong number ({error})") from error
    if steps <= (found[-1][0] if found else 0) or not 1 <= count <= steps:
        raise ValueError(f"line {number} has impossible numbers: {count} episodes until step {steps}")
    found.append((steps, count, mean))


def _run(path: Path, header: Mapping[str, Any], bins: Sequence[Bin]) -> RecordedRun:
    expected, found = _take(header, "episodes", require_natural), sum(count for _, count, _ in bins)
    if found != expected:
        raise ValueError(f"run {header['run']!r} has {found} episodes instead of {expected}")
    counts = np.array([count for _, count, _ in bins], dtype=np.int64)
    return RecordedRun(
        directory=path / header["run"],
        task=_take(header, "task", require_text),
        method=_take(header, "method", require_text),
        seed=_take(header, "seed", require_natural),
        total_steps=_take(header, "steps", require_natural),
        reached=_take(header, "reached", require_natural),
        state=_take(header, "state", require_text),
        episodes=Episodes(
            steps=np.repeat(np.array([steps for steps, _, _ in bins], dtype=np.float64), counts),
            returns=np.repeat(np.array([mean for _, _, mean in bins], dtype=np.float64), counts),
        ),
        sparse=_take(header, "sparse", require_probability),
        error=_take(header, "error", _optional_text),
        settings=with_former_yielding(_take(header, "settings", _require_object)),
        origin=_take(header, "origin", _require_object),
        seconds=dict(_numbers(header, "seconds")),
        bonus=dict.fromkeys(BONUS_COLUMNS, np.nan) | dict(_numbers(header, "bonus")),
        damage=_take(header, "damage", _optional_text),
    )


def _take(header: Mapping[str, Any], name: str, check: Callable[[str, object], Any]) -> Any:
    if name not in header:
        raise ValueError(f"run {header.get('run', '')!r} has no {name!r}")
    return check(name, header[name])


def _numbers(header: Mapping[str, Any], name: str) -> Iterator[tuple[str, float]]:
    for key, value in _take(header, name, _require_object).items():
        yield key, require_finite(f"{name} of {header['run']}", value)


def _optional_text(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} must be text or null, got {value!r}")
    return value


def _require_object(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object, got {value!r}")
    return value


def _require_relative(name: str, value: object) -> str:
    """The path of a run's directory below the archive, which must not lead out of it."""
    text = require_text(name, value)
    if not text or PurePosixPath(text).is_absolute() or ".." in PurePosixPath(text).parts:
        raise ValueError(f"{name} must be a relative path without '..', got {text!r}")
    return text
