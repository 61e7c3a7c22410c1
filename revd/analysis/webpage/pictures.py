"""Figures of matplotlib inside a page."""

from dataclasses import dataclass

from matplotlib.figure import Figure

from revd.analysis.webpage.media import data_uri
from revd.analysis.writing.image_files import figure_png


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure as a data URI, what it shows, and its caption."""

    source: str
    title: str
    caption: str


def draw_picture(figure: Figure, title: str, caption: str) -> Picture:
    """Draw a figure."""
    return Picture(source=data_uri(figure_png(figure), "image/png"), title=title, caption=caption)
