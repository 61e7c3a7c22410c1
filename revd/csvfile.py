"""A CSV file that grows row by row, survives being cut off anywhere, and can be taken back to an earlier row."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO


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

    def keep_until(self, column: str, limit: float) -> None:
        """Drop the rows in which `column` exceeds `limit`."""
        rows = _read(self._path)[1]
        self._rewrite([row for row in rows if float(row[column]) <= limit])

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _rewrite(self, rows: list[dict[str, str]]) -> None:
        temporary = self._path.with_name(f".{os.getpid()}.{self._path.name}")
        lines = [_line(self._columns)] if self._columns else []
        lines += [_line([row.get(name, "") for name in self._columns]) for row in rows]
        temporary.write_text("".join(lines), newline="")
        self.close()
        os.replace(temporary, self._path)
        self._file = self._path.open("a", newline="")


def _read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and complete rows of a file, none if it does not exist."""
    text = path.read_text() if path.exists() else ""
    complete = text[: text.rfind("\n") + 1]
    columns, *rows = [*csv.reader(io.StringIO(complete))] or [[]]
    return columns, [dict(zip(columns, row, strict=True)) for row in rows if len(row) == len(columns)]


def _line(values: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()
