"""`revd report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from revd.cli.figure import Runs, damages, read_runs
from revd.runs.display import print_line

#: File names that a page may have.
ENDINGS = (".md", ".markdown")


@dataclass(frozen=True, kw_only=True)
class ReportCommand:
    """Write one Markdown page about runs: settings, tables, figures, failures, and the commands to repeat them."""

    runs: Runs
    """Run directories, or directories above them."""
    output: Annotated[Path, tyro.conf.arg(metavar="FILE.md")] = Path("report.md")
    """The page; its figures go into a directory beside it, named after it."""

    def run(self) -> None:
        """Draw the figures, write the page, and print its path."""
        _check_page(self.output)
        collection, analysis = read_runs(self.runs)
        from revd.analysis.markdown import plural
        from revd.analysis.writing.figure_files import publish
        from revd.analysis.writing.report import report

        figures = self.output.parent / f"{self.output.stem}-figures"
        published = publish(analysis, figures)
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.output.write_text(report(analysis, published, self.output, unreadable=collection.unreadable))
        drawings = len(published.results) + sum(len(search.drawings) for search in published.searches)
        runs, drawn = plural(len(analysis.all_runs), "run"), plural(drawings, "figure")
        console = Console()
        print_line(console, f"{self.output}: {runs}, {drawn} in {figures}")
        for damage in damages(analysis):
            print_line(console, f"left out: {damage}")


def _check_page(path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"output {str(path)!r} is a directory; it must be a file, such as report.md")
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"output {str(path)!r} must end in {' or '.join(ENDINGS)}: reports are Markdown pages")
    if path.exists() and not path.is_file():
        raise ValueError(f"output {str(path)!r} is no file")
