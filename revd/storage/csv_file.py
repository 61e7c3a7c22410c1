"""A CSV file that grows row by row, survives crashes, and can be truncated to an earlier row."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from revd.storage.atomic import sync, write_whole
from revd.storage.plain_file import read_plain_text


class Limit(NamedTuple):
    """Which rows of a file to keep: those whose number in `column` does not exceed `largest`."""

    column: str
    largest: float


class CsvTable(NamedTuple):
    """The content of a file, including damaged rows."""

    columns: list[str]
    #: The line number and the cells of each row; None for an invalid row.
    rows: list[tuple[int, list[str] | None]]
    #: Whether the last row has no newline: it was cut off, or is still being written.
    is_cut: bool


class CsvFile:
    """Rows of named values. A name that appears later becomes a new column, empty in the rows before.

    Each row is written with one call and flushed, so that a killed process leaves at most its last row incomplete.
    Opening the file drops all damaged rows after the last valid one.

    Args:
        path: The file. An existing file is continued; a ValueError names a damaged row before the last valid one.
        columns: The first columns, in this order.
        until: Rows beyond this limit are dropped.
        before_replacing: Called before the file is replaced; it may raise an error to prevent that.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] = (),
        *,
        until: Limit | None = None,
        before_replacing: Callable[[], None] | None = None,
    ) -> None:
        self._path = path
        self._before_replacing = before_replacing
        self._file: TextIO | None = None
        self._columns, rows = _read(path, until)
        self._columns += [name for name in columns if name not in self._columns]
        self.last = rows[-1] if rows else None
        # Replaced even if nothing changes: a process that has lost the run may still append to the old file.
        self._rewrite(rows)

    def append(self, row: Mapping[str, object]) -> None:
        """Add a row; missing values stay empty."""
        new = [name for name in row if name not in self._columns]
        if new:
            rows = _read(self._path)[1]
            self._columns += new
            self._rewrite(rows)
        assert self._file is not None
        self._file.write(_line([row.get(name) for name in self._columns]))
        self._file.flush()

    def sync(self) -> None:
        """Flush all rows to disk, so that they survive a power cut."""
        sync(self._path)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        lines = [_line(self._columns)] if self._columns else []
        lines += [_line([row.get(name, "") for name in self._columns]) for row in rows]
        if self._before_replacing is not None:
            self._before_replacing()
        self.close()
        write_whole(self._path, "".join(lines).encode())
        self._file = self._path.open("a", newline="", encoding="utf-8")


def read_csv(path: Path) -> CsvTable:
    """Read a file with its damaged rows; a ValueError if it is not a regular file."""
    text = read_plain_text(path)
    # After the last newline there is at most an incomplete row.
    lines = [line + "\n" for line in text.split("\n")[:-1]]
    columns = _cells(iter(lines[:1]))
    return CsvTable(columns, list(_rows(lines, len(columns))), is_cut=not text.endswith("\n") and text != "")


def _read(path: Path, until: Limit | None = None) -> tuple[list[str], list[dict[str, str]]]:
    """The columns and rows of a file; empty if it does not exist.

    Everything after the last valid row within the limit is dropped. A damaged row before it is an error.
    """
    columns, lines, _ = read_csv(path) if path.exists() else CsvTable([], [], False)
    if until is not None and lines and until.column not in columns:
        raise ValueError(f"{path} is damaged: its first line has no column {until.column!r}")
    rows: list[dict[str, str]] = []
    damaged: int | None = None
    for number, cells in lines:
        row = None if cells is None else dict(zip(columns, cells, strict=True))
        place = None if row is None or until is None else _number(row[until.column])
        if row is None or (until is not None and place is None):
            damaged = damaged or number
        elif until is None or (place is not None and place <= until.largest):
            if damaged is not None:
                raise ValueError(f"{path} is damaged: line {damaged} is not a row of {len(columns)} values")
            rows.append(row)
    return columns, rows


def _rows(lines: Sequence[str], width: int) -> Iterator[tuple[int, list[str] | None]]:
    """The line number and the cells of all rows after the first line; None for an invalid row."""
    position = 1

    def rest() -> Iterator[str]:
        nonlocal position
        while position < len(lines):
            position += 1
            yield lines[position - 1]

    while position < len(lines):
        start = position
        cells = _cells(rest())
        if len(cells) == width and not any("\0" in cell or "\ufffd" in cell for cell in cells):
            yield start + 1, cells
        else:
            # A stray quotation mark joins many lines into one row; the lines after the first may be valid.
            position = start + 1
            yield start + 1, None


def _cells(lines: Iterator[str]) -> list[str]:
    """The next row; empty if it cannot be parsed."""
    try:
        return next(csv.reader(lines, strict=True), [])
    except csv.Error:
        return []


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _line(values: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
