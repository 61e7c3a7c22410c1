"""The command `revd`: parse, make a config, call the library. What is slow is imported when it is needed."""

import sys
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any

import tyro

from revd.cli.demo import DemoCommand
from revd.cli.example import ExampleCommand
from revd.cli.figure import FigureCommand
from revd.cli.report import ReportCommand
from revd.cli.rewards import RewardsCommand
from revd.cli.shared import EXIT_INTERRUPTED, EXIT_WRONG_USE, Command, plain_warnings, whole_number
from revd.cli.suite import SuiteCommand
from revd.cli.tasks import TasksCommand
from revd.cli.train import PretrainCommand, TrainCommand, with_sparsity
from revd.cli.tune import TuneCommand
from revd.cli.watch import WatchCommand
from revd.runs.config import Parameters

COMMANDS: dict[str, type[Command]] = {
    "demo": DemoCommand,
    "train": TrainCommand,
    "pretrain": PretrainCommand,
    "suite": SuiteCommand,
    "tune": TuneCommand,
    "figure": FigureCommand,
    "report": ReportCommand,
    "watch": WatchCommand,
    "example": ExampleCommand,
    "rewards": RewardsCommand,
    "tasks": TasksCommand,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with 0, or 1 (a run failed), 2 (wrong use) or 130 (interrupted)."""
    arguments = with_sparsity(sys.argv[1:] if arguments is None else arguments)
    try:
        command: Command = tyro.cli(
            _any_command(arguments),
            prog="revd",
            description="Exploration rewards for reinforcement learning.",
            args=arguments,
            registry=_registry(),
        )
        with plain_warnings():
            command.run()
    except (ValueError, OSError) as error:
        print(f"revd: {error}", file=sys.stderr)
        sys.exit(EXIT_WRONG_USE)
    except KeyboardInterrupt:
        print("revd: stopped", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


def _any_command(arguments: Sequence[str]) -> Any:
    """The union that tyro turns into subcommands; a preset among the arguments changes the defaults of one."""
    asked = arguments[0] if arguments else None
    options = []
    for name, command in COMMANDS.items():
        default = command.with_preset(arguments[1:]) if name == asked and issubclass(command, TrainCommand) else None
        named = tyro.conf.subcommand(name) if default is None else tyro.conf.subcommand(name, default=default)
        options.append(Annotated[command, named])
    return reduce(or_, options)


def _registry() -> tyro.constructors.ConstructorRegistry:
    """What tyro cannot know: how KEY=VALUE words become parameters, and that 1e5 is a whole number."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def parameters_rule(info: tyro.constructors.PrimitiveTypeInfo) -> Any:
        if info.type is not Parameters:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs="*",
            metavar="[KEY=VALUE ...]",
            instance_from_str=Parameters.parse,
            is_instance=lambda instance: isinstance(instance, Parameters),
            str_from_instance=lambda parameters: parameters.words() or ["none"],
        )

    @registry.primitive_rule
    def whole_numbers_rule(info: tyro.constructors.PrimitiveTypeInfo) -> Any:
        if info.type is not int:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="INT",
            instance_from_str=lambda words: whole_number(words[0]),
            is_instance=lambda instance: type(instance) is int,
            str_from_instance=lambda number: [str(number)],
        )

    return registry
