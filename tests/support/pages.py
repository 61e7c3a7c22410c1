"""The pages that people read, and the code in them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "results", "examples")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in ROOT.glob(f"{folder}/**/*.md"))])

#: The modules that readers save from a page.
SAVED = {name for page in PAGES for name in re.findall(r"[Ss]ave this as `(\w+)\.py`", page.read_text())}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(text: str) -> list[tuple[str, str]]:
    """The language and the code of each block between fences."""
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def spans(text: str) -> list[str]:
    """The code inside lines."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def python_blocks(page: Path) -> list[str]:
    """The Python of a page."""
    return [code for language, code in blocks(page.read_text()) if language == "python"]


def shell_lines(page: Path) -> list[str]:
    """The commands of a page's shell blocks, one line each."""
    code = "".join(code for language, code in blocks(page.read_text()) if language in ("bash", "sh"))
    return [line.strip() for line in code.replace("\\\n", " ").splitlines() if line.strip()]


def table(text: str, *header: str) -> list[list[str]]:
    """The rows below each table's header with these first cells."""
    found = []
    for part in re.split(r"\n(?!\|)", text):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in part.splitlines()]
        for index, row in enumerate(rows):
            if row[: len(header)] == [*header]:
                found += rows[index + 2 :]
    return found
