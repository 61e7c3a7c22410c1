"""`revd archive`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from revd.cli.figure import Runs
from revd.runs.display import print_line


@dataclass(frozen=True, kw_only=True)
class ArchiveCommand:
    """Write the settings and returns of runs into one small file that `revd figure` and `revd report` read."""

    runs: Runs
    """Run directories, directories above them, or archives of runs (FILE.csv.gz)."""
    output: Annotated[Path, tyro.conf.arg(metavar="FILE.csv.gz")] = Path("runs.csv.gz")
    """The archive: at most 1,000 bins of steps for each run."""

    def run(self) -> None:
        """Write the archive, and print its size and the runs that are not finished."""
        from revd.analysis.drawing.captions import plural
        from revd.analysis.reading.sources import find_runs
        from revd.analysis.writing.archive import check_archive_path, write_archive

        check_archive_path(self.output)
        found = find_runs(self.runs)
        size = write_archive(found.runs, self.output).stat().st_size
        console = Console()
        print_line(console, f"{self.output}: {plural(len(found.runs), 'run')}, {size:,} bytes")
        for run in found.runs:
            if not run.finished:
                taken = f"{run.reached:,} of {run.total_steps:,} steps"
                print_line(console, f"not finished: '{run.directory}' ({run.state}, {taken})")
            if run.damage is not None:
                print_line(console, f"damaged: '{run.directory}' ({run.damage})")
        for reason in found.unreadable:
            print_line(console, f"left out: {reason}")
