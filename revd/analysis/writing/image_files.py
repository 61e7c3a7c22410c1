"""Figures as PNG and PDF files."""

import io
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.text import Text

# Sharp enough where it is shown without scripts only, and a third of the bytes of a figure for print.
_PAGE_DPI = 110


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure in the format of the file's suffix; equal figures give equal files."""
    undated = {"CreationDate": None} if path.suffix == ".pdf" else None
    _show_dollars(figure)
    # Type 42 fonts keep the text of a PDF searchable, and journals accept them.
    with mpl.rc_context({"pdf.fonttype": 42}):
        figure.savefig(path, dpi=200, metadata=undated)
    return path


def figure_png(figure: Figure) -> bytes:
    """The bytes of a PNG file, for a page that holds its pictures."""
    _show_dollars(figure)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=_PAGE_DPI)
    return image.getvalue()


def save_example(figure: Figure, directory: Path) -> list[Path]:
    """Write the figure of the worked example as PNG and PDF, and return the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"example.{suffix}" for suffix in ("png", "pdf")]
    for path in paths:
        figure.savefig(path, dpi=200)
    return paths


def _show_dollars(figure: Figure) -> None:
    """A task's name may contain a dollar sign, which must not begin a formula."""
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_parse_math(False)
