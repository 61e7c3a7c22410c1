"""Tables, numbers and links in Markdown."""

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

MISSING = "—"

_ESCAPES = str.maketrans({"<": "&lt;", ">": "&gt;"} | {mark: f"\\{mark}" for mark in "\\|`[]"})


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: int = 0) -> list[str]:
    """Lines of a table whose last `numbers` columns are aligned to the right."""
    text = len(columns) - numbers
    return [
        _line(columns),
        _line(["---"] * text + ["---:"] * numbers),
        *(_line([str(cell) for cell in row]) for row in rows),
        "",
    ]


def numbers(*values: float) -> list[str]:
    """Format related returns with equal decimals; the larger they are, the fewer decimals."""
    largest = max(map(abs, values))
    decimals = 0 if largest >= 1000 else 1 if largest >= 10 else 2
    return [f"{value:,.{decimals}f}" for value in values]


def percent(value: float) -> str:
    """Format a fraction in per cent; a dash if it is not finite."""
    return f"{value:.1%}" if math.isfinite(value) else MISSING


def link(path: Path, page: Path) -> str:
    """A relative link from a page to a file, so that both can be moved together."""
    return quote(Path(os.path.relpath(path, page.parent)).as_posix())


def escape(text: str) -> str:
    """Escape untrusted text: one line without HTML, code, links or the end of a table cell."""
    return " ".join(text.translate(_ESCAPES).split())


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(escape, cells)) + " |"
