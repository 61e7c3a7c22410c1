"""Writing a report: its figures, their numbers, and the page itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from revd.analysis.drawing.styles import method_styles
from revd.analysis.statistics.coverage import analyse_coverage
from revd.analysis.statistics.figure_data import ReportData
from revd.analysis.writing.coverage_files import CoverageFiles, write_coverage
from revd.analysis.writing.figure_files import ReportFiles, write_figures
from revd.analysis.writing.hand_written import hand_written_parts
from revd.analysis.writing.report import report


@dataclass(frozen=True, kw_only=True)
class PageFiles:
    """The files of a page's figures."""

    figures: ReportFiles
    coverage: CoverageFiles | None

    @property
    def n_images(self) -> int:
        """Number of learning curves, searches, and images of what was visited."""
        searched = sum(len(search.images) for search in self.figures.searches)
        return len(self.figures.figures) + searched + (0 if self.coverage is None else len(self.coverage.images))


def write_page(data: ReportData, page: Path, *, unreadable: Sequence[str] = ()) -> PageFiles:
    """Draw the figures and write the page; what people wrote into an earlier version of it is kept."""
    parts = hand_written_parts(page.read_text()) if page.exists() else {}
    files = write_figures(data, figure_directory(page))
    coverage = write_coverage(analyse_coverage(data.runs), figure_directory(page), styles=method_styles(data.methods))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(report(data, files, page, coverage=coverage, unreadable=unreadable, parts=parts))
    return PageFiles(figures=files, coverage=coverage)


def figure_directory(page: Path) -> Path:
    """The directory of a page's figures: named after it, or just `figures` beside a README."""
    return page.parent / ("figures" if page.stem == "README" else f"{page.stem}-figures")
