"""The command `revd`: parse, make a config, call the library. What is slow is imported when it is needed."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from revd.experiments.config import Parameters, TrainConfig
from revd.experiments.demo import TASK, THRESHOLD, DemoConfig, demo_runs

if TYPE_CHECKING:
    from revd.experiments.launcher import Run

EXIT_FAILED = 1
EXIT_WRONG_USE = 2
EXIT_INTERRUPTED = 130

# What a run leaves behind that one looks at next.
CONTENTS = {
    "model.zip": "the trained model",
    "episodes.csv": "every episode's return",
    "progress.csv": "the logger's numbers; the same for TensorBoard beside it",
    "config.json": "everything that was set",
}

_TRAIN_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/TASK/ALGO-REWARD-seedSEED)")
_DEMO_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: the first free runs/demo-NUMBER)")


@dataclass(frozen=True, kw_only=True)
class TrainCommand(TrainConfig):
    """Train one agent with an exploration reward, and keep everything about it in a directory."""

    output: Annotated[Path | None, _TRAIN_OUTPUT] = None
    """Directory of the run. It must not hold a run already."""
    progress: bool = True
    """Show how the training goes."""

    def __post_init__(self) -> None:
        """Checked in `config` instead, where an error can be printed in our own words."""

    def config(self) -> TrainConfig:
        """The training that was asked for."""
        return TrainConfig(**{entry.name: getattr(self, entry.name) for entry in fields(TrainConfig)})


@dataclass(frozen=True, kw_only=True)
class DemoCommand(DemoConfig):
    """Compare PPO with PPO+REVD on MountainCar-v0: a table and a learning curve, in minutes."""

    output: Annotated[Path | None, _DEMO_OUTPUT] = None
    """Directory of the demonstration."""

    def __post_init__(self) -> None:
        """Checked in `config` instead, where an error can be printed in our own words."""

    def config(self) -> DemoConfig:
        """The demonstration that was asked for."""
        return DemoConfig(**{entry.name: getattr(self, entry.name) for entry in fields(DemoConfig)})


@dataclass(frozen=True, kw_only=True)
class RewardsCommand:
    """List the exploration rewards with their parameters and defaults."""


Command = (
    Annotated[TrainCommand, tyro.conf.subcommand("train")]
    | Annotated[DemoCommand, tyro.conf.subcommand("demo")]
    | Annotated[RewardsCommand, tyro.conf.subcommand("rewards")]
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with 0, or 1 (a run failed), 2 (wrong use) or 130 (interrupted)."""
    command: TrainCommand | DemoCommand | RewardsCommand = tyro.cli(
        Command,
        prog="revd",
        description="Exploration rewards for reinforcement learning.",
        args=arguments,
        registry=_registry(),
    )
    try:
        match command:
            case TrainCommand():
                _train(command)
            case DemoCommand():
                _demo(command)
            case RewardsCommand():
                Console().print(rewards_table())
    except (ValueError, FileExistsError) as error:
        print(f"revd: {error}", file=sys.stderr)
        sys.exit(EXIT_WRONG_USE)
    except KeyboardInterrupt:
        print("revd: stopped", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


def rewards_table() -> Table:
    """Every reward, its parameters and their defaults."""
    from revd.rewards import REWARDS

    table = Table(header_style="bold", show_lines=True)
    table.add_column("reward", no_wrap=True)
    table.add_column("what it pays for")
    table.add_column("parameters and defaults", no_wrap=True)
    for name, reward in REWARDS.items():
        pays_for = (reward.__doc__ or "").strip().split("\n\n")[0]
        defaults = {entry.name: entry.default for entry in fields(reward.config_type)}
        table.add_row(name, " ".join(pays_for.split()), "\n".join(Parameters(defaults).words()))
    return table


def _train(command: TrainCommand) -> None:
    config = command.config()
    console = Console()
    from revd.experiments.display import reporting
    from revd.experiments.run import train

    _print(console, f"{config.method} on {config.task}, {config.steps:,} steps, into {config.directory}")
    if command.progress:
        with reporting(console, config.steps) as report:
            directory = train(config, report=report)
    else:
        directory = train(config)
    _print(console, f"Done. In {directory}:")
    for name, meaning in CONTENTS.items():
        _print(console, f"  {name:14}{meaning}")


def _demo(command: DemoCommand) -> None:
    demo = command.config()
    if find_spec("matplotlib") is None:
        raise ValueError("the demo draws a figure and needs matplotlib: pip install 'revd[plots]'")
    from revd.experiments.display import watching
    from revd.experiments.launcher import launch

    console = Console()
    directory = demo.directory()
    configs = demo_runs(demo, directory)
    _print(
        console,
        f"{len(configs)} runs on {TASK}, {demo.steps:,} steps each, {demo.processes} at a time; "
        f"they are kept in {directory}",
    )
    with watching(console) as watch:
        runs = launch(configs, jobs=demo.processes, watch=watch)
    _show_demo(console, directory, runs)


def _show_demo(console: Console, directory: Path, runs: "Sequence[Run]") -> None:
    from revd.analysis.figures import learning_curves, save_figure
    from revd.analysis.runs import find_runs
    from revd.analysis.tables import summarize, summary_table

    finished = [run for run in find_runs(directory) if run.state == "finished"]
    failed = [run for run in runs if run.status.state == "failed"]
    if any(len(run.episodes.returns) for run in finished):
        console.print(summary_table(summarize(finished, threshold=THRESHOLD), threshold=THRESHOLD))
        figure = save_figure(learning_curves(finished, threshold=THRESHOLD), directory / "learning-curve.png")
        _print(console, f"Learning curve: {figure}")
    for run in failed:
        _print(console, f"failed: {run.config.directory}: {run.status.error} (see its log.txt)")
    if failed:
        sys.exit(EXIT_FAILED)


def _print(console: Console, line: str) -> None:
    # Paths are for copying: no wrapping, no colours inside.
    console.print(line, soft_wrap=True, highlight=False, markup=False)


def _registry() -> tyro.constructors.ConstructorRegistry:
    """What tyro cannot know: how KEY=VALUE words become parameters."""
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

    return registry
