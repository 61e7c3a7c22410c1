"""A CSV file that grows row by row, survives being cut off anywhere, and can be taken back to an earlier row."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from revd.atomicfile import sync, write_whole


class CsvFile:
    """Rows of named values. A name that appears later becomes a new column, empty in the rows before.

    Each row is written with one call and flushed, so that a killed process leaves at most its last row incomplete;
    opening the file again drops such a row.

    Args:
        path: The file; an existing one is gone on with.
        columns: The first columns, in this order.
    """

    def __init__(self, path: Path, columns: Sequence[str] = ()) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._columns, rows = _read(path)
        self._columns += [name for name in columns if name not in self._columns]
        self._rewrite(rows)

    def append(self, row: Mapping[str, object]) -> None:
        """Add a row; what is missing stays empty."""
        new = [name for name in row if name not in self._columns]
        if new:
            self._columns += new
            self._rewrite(_read(self._path)[1])
        assert self._file is not None
        self._file.write(_line([row.get(name) for name in self._columns]))
        self._file.flush()

    def sync(self) -> None:
        """Wait until all rows are on disk: then a power cut cannot take them back."""
        sync(self._path)

    def keep_until(self, column: str, limit: float) -> None:
        """Drop the rows in which `column` exceeds `limit`."""
        rows = _read(self._path)[1]
        self._rewrite([row for row in rows if self._number(row[column], column) <= limit])

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _number(self, cell: str, column: str) -> float:
        try:
            return float(cell)
        except ValueError as error:
            raise ValueError(f"{self._path} is damaged: a row has {column} {cell!r}, which is no number") from error

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        lines = [_line(self._columns)] if self._columns else []
        lines += [_line([row.get(name, "") for name in self._columns]) for row in rows]
        self.close()
        write_whole(self._path, "".join(lines).encode())
        self._file = self._path.open("a", newline="", encoding="utf-8")


def _read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and complete rows of a file, none if it does not exist."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    complete = text[: text.rfind("\n") + 1]
    columns, *rows = [*csv.reader(io.StringIO(complete))] or [[]]
    return columns, [dict(zip(columns, row, strict=True)) for row in rows if len(row) == len(columns)]


def _line(values: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
