"""Markdown's tables and numbers."""

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

MISSING = "—"

_ESCAPES = str.maketrans({"<": "&lt;", ">": "&gt;"} | {mark: f"\\{mark}" for mark in "\\|`[]"})


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: int = 0) -> list[str]:
    """Lines of a table whose last `numbers` columns are set to the right."""
    text = len(columns) - numbers
    return [
        _line(columns),
        _line(["---"] * text + ["---:"] * numbers),
        *(_line([str(cell) for cell in row]) for row in rows),
        "",
    ]


def numbers(*values: float) -> list[str]:
    """Returns that stand together, with as many decimals as the largest of them deserves."""
    largest = max(map(abs, values))
    decimals = 0 if largest >= 1000 else 1 if largest >= 10 else 2
    return [f"{value:,.{decimals}f}" for value in values]


def percent(value: float) -> str:
    """A fraction in per cent; a dash where there is none."""
    return f"{value:.1%}" if math.isfinite(value) else MISSING


def plural(count: int, word: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def link(path: Path, page: Path) -> str:
    """How a page refers to a file: relative, so that both can be moved together."""
    return quote(Path(os.path.relpath(path, page.parent)).as_posix())


def escape(text: str) -> str:
    """Text on one line that is neither HTML, code, a link nor the end of a table's cell, whoever wrote it."""
    return " ".join(text.translate(_ESCAPES).split())


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(escape, cells)) + " |"
