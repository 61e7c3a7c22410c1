"""`revd figure`."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from revd.runs.display import print_line

if TYPE_CHECKING:
    from revd.analysis.reading.sources import FoundRuns
    from revd.analysis.statistics.figure_data import ReportData

Runs = tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUNS...")]]


@dataclass(frozen=True, kw_only=True)
class FigureCommand:
    """Draw the paper's figures, the comparison over tasks, searches, and visited states, from run directories."""

    runs: Runs
    """Run directories, directories above them, or archives of runs (FILE.csv.gz)."""
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("figures")
    """Directory of the figures: PNG and PDF, and a CSV of the plotted numbers beside each."""

    def run(self) -> None:
        """Draw the figures, and print their paths and notes about them."""
        console = Console()
        found, data = read_runs(self.runs)
        from revd.analysis.drawing.styles import method_styles
        from revd.analysis.statistics.coverage import analyse_coverage
        from revd.analysis.writing.coverage_files import write_coverage
        from revd.analysis.writing.figure_files import write_figures
        from revd.analysis.writing.report import NOTHING_TO_DRAW

        coverage = analyse_coverage(data.runs)
        if not data.figures and not data.searches and not coverage.curves:
            raise ValueError("; ".join([f"nothing to draw: {NOTHING_TO_DRAW}", *damages(data)]))

        def on_written(path: Path) -> None:
            print_line(console, f"{path} (and .pdf, .csv)")

        write_figures(data, self.output, on_written=on_written)
        write_coverage(coverage, self.output, styles=method_styles(data.methods), on_written=on_written)
        for note in [*notes(data), *found.unreadable, *data.notes, *coverage.notes]:
            print_line(console, f"note: {note}")


def read_runs(paths: tuple[Path, ...]) -> "tuple[FoundRuns, ReportData]":
    """Load the runs below some paths and compute the data of all figures."""
    for package in ("matplotlib", "rliable"):
        if find_spec(package) is None:
            raise ValueError(f"figures and reports need {package}: pip install 'revd[plots]'")
    from revd.analysis.reading.sources import find_runs
    from revd.analysis.statistics.figure_data import analyse_runs

    found = find_runs(paths)
    return found, analyse_runs(found.runs)


def damages(data: "ReportData") -> list[str]:
    """A message for each damaged run."""
    return [f"{str(run.directory)!r} is damaged: {run.damage}" for run in data.all_runs if run.damage is not None]


def notes(data: "ReportData") -> list[str]:
    """The notes on all figures, each once, with the names of its figures."""
    figures: dict[str, list[str]] = {}
    for figure in data.figures:
        for note in figure.notes:
            figures.setdefault(note, []).append(figure.plan.name)
    trials = [run for found in data.searches for run in found.search.runs if run.damage is not None]
    return [
        *(f"{', '.join(names)}: {note}" for note, names in figures.items()),
        *(f"{str(run.directory)!r} is damaged: {run.damage}" for run in trials),
    ]
