"""`revd train`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from revd.cli.shared import parent_config, print_line
from revd.experiments.config import TrainConfig

# What a run leaves behind that one looks at next.
CONTENTS = {
    "model.zip": "the trained model",
    "episodes.csv": "every episode's return",
    "progress.csv": "the logger's numbers; the same for TensorBoard beside it",
    "config.json": "everything that was set",
}

_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/TASK/ALGO-REWARD-seedSEED)")


@dataclass(frozen=True, kw_only=True)
class TrainCommand(TrainConfig):
    """Train one agent with an exploration reward, and keep everything about it in a directory."""

    output: Annotated[Path | None, _OUTPUT] = None
    """Directory of the run. It must not hold a run already."""
    progress: bool = True
    """Show how the training goes."""

    def __post_init__(self) -> None:
        """Checked in `config` instead, where an error can be printed in our own words."""

    def config(self) -> TrainConfig:
        """The training that was asked for."""
        return parent_config(self, TrainConfig)

    def run(self) -> None:
        """Train, and say where everything lies."""
        config = self.config()
        console = Console()
        from revd.experiments.display import reporting
        from revd.experiments.run import train

        print_line(console, f"{config.method} on {config.task}, {config.steps:,} steps, into {config.directory}")
        if self.progress:
            with reporting(console, config.steps) as report:
                directory = train(config, report=report)
        else:
            directory = train(config)
        print_line(console, f"Done. In {directory}:")
        for name, meaning in CONTENTS.items():
            print_line(console, f"  {name:14}{meaning}")
