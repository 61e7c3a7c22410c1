"""The command `revd`: parse, make a config, call the library. Slow modules are imported only by their commands."""

import sys
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any

import tyro

import revd
from revd.cli.archive import ArchiveCommand
from revd.cli.compare import CompareCommand
from revd.cli.demo import DemoCommand
from revd.cli.example import ExampleCommand
from revd.cli.export import ExportCommand
from revd.cli.figure import FigureCommand
from revd.cli.parsing import parsing_rules
from revd.cli.report import ReportCommand
from revd.cli.rewards import RewardsCommand
from revd.cli.shared import EXIT_INTERRUPTED, EXIT_WRONG_USE, Command, plain_warnings
from revd.cli.suite import SuiteCommand
from revd.cli.tasks import TasksCommand
from revd.cli.train import PretrainCommand, TrainCommand
from revd.cli.tune import TuneCommand
from revd.cli.watch import WatchCommand

COMMANDS: dict[str, type[Command]] = {
    "demo": DemoCommand,
    "train": TrainCommand,
    "pretrain": PretrainCommand,
    "compare": CompareCommand,
    "suite": SuiteCommand,
    "tune": TuneCommand,
    "figure": FigureCommand,
    "report": ReportCommand,
    "archive": ArchiveCommand,
    "watch": WatchCommand,
    "export": ExportCommand,
    "example": ExampleCommand,
    "rewards": RewardsCommand,
    "tasks": TasksCommand,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with 0, or 1 (a run failed), 2 (wrong use) or 130 (interrupted)."""
    if list(sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        print(f"revd {revd.__version__}")
        return
    try:
        command: Command = tyro.cli(
            _any_command(),
            prog="revd",
            description="Exploration rewards for reinforcement learning. `revd --version` prints the version.",
            args=arguments,
            registry=parsing_rules(),
        )
        with plain_warnings():
            command.run()
    except (ValueError, OSError) as error:
        print(f"revd: {error}", file=sys.stderr)
        sys.exit(EXIT_WRONG_USE)
    except KeyboardInterrupt:
        print("revd: stopped", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


def _any_command() -> Any:
    """The union of all commands, which tyro turns into subcommands."""
    options = []
    for name, command in COMMANDS.items():
        default = command.nothing_given() if issubclass(command, TrainCommand) else None
        named = tyro.conf.subcommand(name) if default is None else tyro.conf.subcommand(name, default=default)
        options.append(Annotated[command, named])
    return reduce(or_, options)
