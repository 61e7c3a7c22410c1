"""Writing a report: its figures, their numbers, and the page itself."""

from collections.abc import Sequence
from pathlib import Path

from revd.analysis.statistics.figure_data import ReportData
from revd.analysis.writing.figure_files import ReportFiles, write_figures
from revd.analysis.writing.hand_written import hand_written_parts
from revd.analysis.writing.report import report


def write_page(data: ReportData, page: Path, *, unreadable: Sequence[str] = ()) -> ReportFiles:
    """Draw the figures and write the page; what people wrote into an earlier version of it is kept."""
    parts = hand_written_parts(page.read_text()) if page.exists() else {}
    files = write_figures(data, figure_directory(page))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(report(data, files, page, unreadable=unreadable, parts=parts))
    return files


def figure_directory(page: Path) -> Path:
    """The directory of a page's figures: named after it, or just `figures` beside a README."""
    return page.parent / ("figures" if page.stem == "README" else f"{page.stem}-figures")
