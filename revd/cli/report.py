"""`revd report`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from revd.cli.figure import Runs, damages, read_runs
from revd.runs.display import print_line

if TYPE_CHECKING:
    from revd.analysis.statistics.figure_data import ReportData

#: What the names of pages end with.
MARKDOWN = (".md", ".markdown")
HTML = (".html", ".htm")

_OUTPUT = tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: report.md, or report.html with --html)")


@dataclass(frozen=True, kw_only=True)
class ReportCommand:
    """Write one page about runs: settings, tables, figures, failures, and the commands to repeat them."""

    runs: Runs
    """Run directories, directories above them, or archives of runs (FILE.csv.gz)."""
    html: bool = False
    """Write one HTML page with interactive curves, which holds all it needs, instead of Markdown."""
    output: Annotated[Path | None, _OUTPUT] = None
    """The page. FILE.md: its figures go into a directory beside it, and what people wrote between its marks
    is kept. FILE.html: as with --html."""

    def run(self) -> None:
        """Draw the figures, write the page, and print its path."""
        page = self._page()
        found, data = read_runs(self.runs)
        from revd.analysis.drawing.captions import plural

        runs = plural(len(data.all_runs), "run")
        write = _write_html if page.suffix.lower() in HTML else _write_markdown
        console = Console()
        print_line(console, f"{page}: {runs}, {write(data, page, found.unreadable)}")
        for reason in [*damages(data), *found.unreadable]:
            print_line(console, f"left out: {reason}")

    def _page(self) -> Path:
        """The page, whose name ends as its format asks."""
        path = self.output or Path("report.html" if self.html else "report.md")
        endings = HTML if self.html else (*MARKDOWN, *HTML)
        if path.is_dir():
            raise ValueError(f"output {str(path)!r} is a directory; it must be a file, such as report.md")
        if path.suffix.lower() not in endings:
            only = ": with --html, a report is an HTML page" if self.html else ": reports are Markdown or HTML pages"
            raise ValueError(f"output {str(path)!r} must end in {' or '.join(endings)}{only}")
        if path.exists() and not path.is_file():
            raise ValueError(f"output {str(path)!r} is no file")
        return path


def _write_markdown(data: "ReportData", page: Path, unreadable: Sequence[str]) -> str:
    """Write the page and its figures, and say how many there are."""
    from revd.analysis.drawing.captions import plural
    from revd.analysis.writing.page import figure_directory, write_page

    files = write_page(data, page, unreadable=unreadable)
    return f"{plural(files.n_images, 'figure')} in {figure_directory(page)}"


def _write_html(data: "ReportData", page: Path, unreadable: Sequence[str]) -> str:
    """Write the page, and say how large it is and how many files it only links."""
    from revd.analysis.drawing.captions import plural
    from revd.analysis.webpage.page import write_web_page

    media = write_web_page(data, page, unreadable=unreadable)
    linked = sum(medium.source is None for medium in media)
    links = f", {plural(linked, 'large file')} linked" if linked else ""
    return f"{page.stat().st_size / 2**20:.1f} MiB{links}"
