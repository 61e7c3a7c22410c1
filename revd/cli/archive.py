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
    """Write the settings and returns of runs into one small file that `revd figure` and `revd report` read.

    To add runs to an archive, give the archive and their directories, and the archive again as the output.
    """

    runs: Runs
    """Run directories, directories above them, or archives of runs (FILE.csv.gz)."""
    output: Annotated[Path, tyro.conf.arg(metavar="FILE.csv.gz")] = Path("runs.csv.gz")
    """The archive: at most 1,000 bins of steps for each run."""

    def run(self) -> None:
        """Write the archive, and print its size and the runs that are not finished."""
        from revd.analysis.drawing.captions import plural
        from revd.analysis.reading.sources import find_runs
        from revd.analysis.writing.archive import check_archive_path, write_archive
        from revd.analysis.writing.merged_runs import merge_runs

        check_archive_path(self.output)
        found = find_runs(self.runs)
        merged = merge_runs(found.runs)
        runs = list(merged.named.values())
        size = write_archive(runs, self.output).stat().st_size
        console = Console()
        print_line(console, f"{self.output}: {plural(len(runs), 'run')}, {size:,} bytes")
        for run in runs:
            if not run.finished:
                taken = f"{run.reached:,} of {run.total_steps:,} steps"
                print_line(console, f"not finished: '{run.directory}' ({run.state}, {taken})")
            if run.damage is not None:
                print_line(console, f"damaged: '{run.directory}' ({run.damage})")
        for run in merged.left_out:
            print_line(console, f"left out: '{run.directory}' is there twice")
        for reason in found.unreadable:
            print_line(console, f"left out: {reason}")
