"""`revd demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from revd.cli.compare import train_and_show
from revd.cli.shared import parent_config
from revd.suites.demo import DemoConfig

_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: the first free runs/demo-NUMBER)")


@dataclass(frozen=True, kw_only=True)
class DemoCommand(DemoConfig):
    """Compare PPO with PPO+REVD on MountainCar-v0, with two weights: a table and a learning curve, in minutes."""

    output: Annotated[Path | None, _OUTPUT] = None
    """Directory of the demonstration."""

    def config(self) -> DemoConfig:
        """The config of the demonstration."""
        return parent_config(self, DemoConfig)

    def run(self) -> None:
        """Train all methods, then show what was found."""
        train_and_show(self.config().comparison())
