"""`revd figure`."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from revd.runs.display import print_line

if TYPE_CHECKING:
    from revd.analysis.reading.runs import Collection
    from revd.analysis.statistics.figure_data import Analysis

Runs = tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(metavar="RUNS...")]]


@dataclass(frozen=True, kw_only=True)
class FigureCommand:
    """Draw the paper's result figures, the comparison over tasks, and searches, from run directories."""

    runs: Runs
    """Run directories, or directories above them."""
    output: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("figures")
    """Directory of the figures: PNG and PDF, and a CSV of the plotted numbers beside each."""

    def run(self) -> None:
        """Draw the figures, and print their paths and notes about them."""
        console = Console()
        collection, analysis = read_runs(self.runs)
        from revd.analysis.writing.figure_files import publish
        from revd.analysis.writing.report import NOTHING_TO_DRAW

        if not analysis.results and not analysis.searches:
            raise ValueError("; ".join([f"nothing to draw: {NOTHING_TO_DRAW}", *damages(analysis)]))
        publish(analysis, self.output, tell=lambda path: print_line(console, f"{path} (and .pdf, .csv)"))
        for note in [*notes(analysis), *collection.unreadable, *analysis.notes]:
            print_line(console, f"note: {note}")


def read_runs(paths: tuple[Path, ...]) -> "tuple[Collection, Analysis]":
    """Read the runs below some paths, and compute their statistics."""
    for package in ("matplotlib", "rliable"):
        if find_spec(package) is None:
            raise ValueError(f"figures and reports need {package}: pip install 'revd[plots]'")
    from revd.analysis.reading.runs import collect_runs
    from revd.analysis.statistics.figure_data import analyse

    collection = collect_runs(paths)
    return collection, analyse(collection.runs)


def damages(analysis: "Analysis") -> list[str]:
    """One line for each damaged run."""
    return [f"{str(run.directory)!r} is damaged: {run.damage}" for run in analysis.all_runs if run.damage is not None]


def notes(analysis: "Analysis") -> list[str]:
    """Notes about the figures, each once, with the names of its figures."""
    figures: dict[str, list[str]] = {}
    for result in analysis.results:
        for note in result.notes:
            figures.setdefault(note, []).append(result.selection.name)
    trials = [run for found in analysis.searches for run in found.search.runs if run.damage is not None]
    return [
        *(f"{', '.join(names)}: {note}" for note, names in figures.items()),
        *(f"{str(run.directory)!r} is damaged: {run.damage}" for run in trials),
    ]
