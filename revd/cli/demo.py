"""`revd demo`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from revd.cli.shared import EXIT_FAILED, parent_config
from revd.runs.display import print_line
from revd.suites.demo import TASK, THRESHOLD, DemoConfig, demo_runs

if TYPE_CHECKING:
    from revd.suites.scheduler import RunProgress

_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: the first free runs/demo-NUMBER)")


@dataclass(frozen=True, kw_only=True)
class DemoCommand(DemoConfig):
    """Compare PPO with PPO+REVD on MountainCar-v0, with two weights: a table and a learning curve, in minutes."""

    output: Annotated[Path | None, _OUTPUT] = None
    """Directory of the demonstration."""

    def __post_init__(self) -> None:
        """Do nothing: `config` checks the fields, so that errors are printed as ours rather than the parser's."""

    def config(self) -> DemoConfig:
        """The config of the demonstration."""
        return parent_config(self, DemoConfig)

    def run(self) -> None:
        """Train all methods, then show the table and draw the curve."""
        demo = self.config()
        if find_spec("matplotlib") is None:
            raise ValueError("the demo draws a figure and needs matplotlib: pip install 'revd[plots]'")
        from revd.suites.display import showing_runs
        from revd.suites.scheduler import train_all

        console = Console()
        directory = demo.directory()
        configs = demo_runs(demo, directory)
        print_line(
            console,
            f"{len(configs)} runs on {TASK}, {demo.steps:,} steps each, {demo.processes} at a time; "
            f"they are kept in {directory}",
        )
        with showing_runs(console) as watch:
            runs = train_all(configs, jobs=demo.processes, watch=watch)
        _show(console, directory, runs)


def _show(console: Console, directory: Path, runs: "Sequence[RunProgress]") -> None:
    from revd.analysis.drawing.figures import learning_curves
    from revd.analysis.reading.runs import load_runs
    from revd.analysis.statistics.grouping import name_variants
    from revd.analysis.statistics.method_summary import summarize
    from revd.analysis.writing.image_files import save_figure
    from revd.analysis.writing.summary_table import summary_table

    finished = [run for run in name_variants(load_runs(directory)) if run.state == "finished"]
    failed = [run for run in runs if run.status.state == "failed"]
    if any(len(run.episodes.returns) for run in finished):
        console.print(summary_table(summarize(finished, threshold=THRESHOLD), threshold=THRESHOLD))
        figure = save_figure(learning_curves(finished, threshold=THRESHOLD), directory / "learning-curve.png")
        print_line(console, f"Learning curve: {figure}")
    for run in failed:
        print_line(console, f"failed: {run.config.directory}: {run.status.error} (see its log.txt)")
    if failed:
        sys.exit(EXIT_FAILED)
