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
    """Run directories, directories above them, or archives of runs (FILE.csv.gz)."""
    output: Annotated[Path, tyro.conf.arg(metavar="FILE.md")] = Path("report.md")
    """The page; its figures go into a directory beside it. What people wrote between its marks is kept."""

    def run(self) -> None:
        """Draw the figures, write the page, and print its path."""
        _check_page(self.output)
        found, data = read_runs(self.runs)
        from revd.analysis.drawing.captions import plural
        from revd.analysis.writing.page import figure_directory, write_page

        files = write_page(data, self.output, unreadable=found.unreadable)
        runs, drawn = plural(len(data.all_runs), "run"), plural(files.n_images, "figure")
        console = Console()
        print_line(console, f"{self.output}: {runs}, {drawn} in {figure_directory(self.output)}")
        for reason in [*damages(data), *found.unreadable]:
            print_line(console, f"left out: {reason}")


def _check_page(path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"output {str(path)!r} is a directory; it must be a file, such as report.md")
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"output {str(path)!r} must end in {' or '.join(ENDINGS)}: reports are Markdown pages")
    if path.exists() and not path.is_file():
        raise ValueError(f"output {str(path)!r} is no file")
