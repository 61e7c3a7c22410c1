"""Tables and links in Markdown."""

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from revd.analysis.writing.tables import Table

_ESCAPES = str.maketrans({"<": "&lt;", ">": "&gt;"} | {mark: f"\\{mark}" for mark in "\\|`[]"})


def table(content: Table) -> list[str]:
    """Lines of a table; its numbers are aligned to the right."""
    text = len(content.columns) - content.numbers
    return [
        _line(content.columns),
        _line(["---"] * text + ["---:"] * content.numbers),
        *map(_line, content.rows),
        "",
    ]


def link(path: Path, page: Path) -> str:
    """A relative link from a page to a file, so that both can be moved together."""
    return quote(Path(os.path.relpath(path, page.parent)).as_posix())


def escape(text: str) -> str:
    """Escape untrusted text: one line without HTML, code, links or the end of a table cell."""
    return " ".join(text.translate(_ESCAPES).split())


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(escape, cells)) + " |"
