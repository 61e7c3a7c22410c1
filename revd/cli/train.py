"""`revd train` and `revd pretrain`."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tyro
from rich.console import Console

from revd.cli.shared import EXIT_FAILED, parent_config, print_line
from revd.cli.watch import WatchCommand, require_matplotlib
from revd.envs.tasks import SPARSITY
from revd.runs.config import NO_REWARD, TrainConfig
from revd.storage import run_files
from revd.suites.grids import preset_config

# What a run leaves behind that one looks at next.
CONTENTS = {
    run_files.MODEL: "the trained model, as SB3 saves it",
    run_files.VEC_NORMALIZE: "its normalisation of observations and rewards, for VecNormalize.load",
    run_files.EPISODES: "every episode's return",
    run_files.PROGRESS: "the logger's numbers; the same for TensorBoard beside it",
    run_files.CONFIG: "everything that was set",
}

_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/TASK/ALGO-REWARD-seedSEED)")
_PRETRAIN_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/TASK/pretrain-ALGO-REWARD-seedSEED)")
_INIT = tyro.conf.arg(metavar="RUN", help_behavior_hint="(default: a fresh policy)")
_SPARSE = tyro.conf.arg(metavar="P", help_behavior_hint="(default: nothing is hidden; without P, 0.9)")


def with_sparsity(arguments: Sequence[str]) -> list[str]:
    """The arguments, a bare `--sparse` followed by the probability that it stands for."""
    words = list(arguments)
    for index, word in reversed(list(enumerate(words))):
        following = words[index + 1] if index + 1 < len(words) else "--"
        if word == "--sparse" and following.startswith("--"):
            words.insert(index + 1, str(SPARSITY))
    return words


@dataclass(frozen=True, kw_only=True)
class TrainCommand(TrainConfig):
    """Train one agent with an exploration reward, and keep everything about it in a directory."""

    output: Annotated[Path | None, _OUTPUT] = None
    """Directory of the run; the same command goes on with a run that it finds there."""
    init_from: Annotated[Path | None, _INIT] = None
    """Run to take the initial policy from, such as one of `revd pretrain`; with --trust, a model.zip of SB3's."""
    sparse: Annotated[float | None, _SPARSE] = None
    """Probability with which each step's reward is hidden from the agent; reported returns are untouched."""
    preset: Literal["none", "paper"] = "none"
    """Where all that is not given comes from: our defaults, or the paper's tables for atari/… and bullet/… tasks."""
    progress: bool = True
    """Show how the training goes."""
    video: bool = False
    """At the end, film an episode of the trained agent, as `revd watch` does."""
    trust: bool = False
    """Let --init-from be a model.zip of Stable-Baselines3: it holds pickles, which can execute any code."""

    def __post_init__(self) -> None:
        """Checked in `config` instead, where an error can be printed in our own words."""

    @classmethod
    def with_preset(cls, arguments: Sequence[str]) -> Self | None:
        """The defaults that a preset among the arguments means; None without one."""
        parser = ArgumentParser(add_help=False, allow_abbrev=False)
        for name, default in (("--task", None), ("--preset", "none"), ("--algo", "ppo"), ("--reward", "revd")):
            # A flag without its value is for tyro to complain about.
            parser.add_argument(name, nargs="?", default=default, const=default)
        given, _ = parser.parse_known_args(list(arguments))
        if given.preset == "none" or given.task is None:
            return None
        config = preset_config(given.preset, task=given.task, algo=given.algo, reward=given.reward)
        return cls(**{entry.name: getattr(config, entry.name) for entry in fields(TrainConfig)}, preset=given.preset)

    def config(self) -> TrainConfig:
        """The training that was asked for; single parameters are set over the preset's."""
        given = parent_config(self, TrainConfig)
        preset = preset_config(self.preset, task=self.task, algo=self.algo, reward=self.reward)
        merged: dict[str, Any] = {
            name: {**getattr(preset, name), **getattr(given, name)} for name in ("algo_params", "reward_params")
        }
        return replace(given, **merged)

    def run(self) -> None:
        """Train, and say where everything lies."""
        config = self.config()
        console = Console()
        if self.video:
            require_matplotlib()
        from revd.runs.directory import RunDirectory

        run = RunDirectory(config.directory)
        run.open(config)
        if run.is_finished(config.steps):
            print_line(console, f"{config.directory} is finished already; more --steps would go on with it")
            self._film(config)
            return
        self._check(config)
        print_line(console, f"{config.method} on {config.task}, {config.steps:,} steps, into {config.directory}")
        directory = self._train(config, console)
        _print_speed(directory, console)
        print_line(console, f"Done. In {directory}:")
        for name, meaning in CONTENTS.items():
            if (directory / name).exists():
                print_line(console, f"  {name:18}{meaning}")
        self._film(config)

    def _check(self, config: TrainConfig) -> None:
        """Raise a ValueError for what is wrong with the training's names, or would only show when it is filmed."""
        from revd.runs.train import check_names

        check_names(config)
        if self.video:
            from revd.runs.watch import check_drawable

            check_drawable(config)

    def _train(self, config: TrainConfig, console: Console) -> Path:
        from revd.runs.lease import LeaseLostError
        from revd.runs.termination import interrupt_on_termination
        from revd.runs.train import RunFailedError, train
        from revd.suites.display import reporting

        try:
            with interrupt_on_termination():
                if not self.progress:
                    return train(config, trust=self.trust)
                with reporting(console, config.steps) as report:
                    return train(config, report=report, trust=self.trust)
        except (RunFailedError, LeaseLostError) as error:
            print(f"revd: {error}", file=sys.stderr)
            sys.exit(EXIT_FAILED)

    def _film(self, config: TrainConfig) -> None:
        if self.video:
            # The user has named the task, and with it the package that it may come from.
            WatchCommand(directory=config.directory, trust=True).run()


@dataclass(frozen=True, kw_only=True)
class PretrainCommand(TrainCommand):
    """Train on the bonus alone; `revd train --init-from RUN` then fine-tunes the policy on the task's reward."""

    output: Annotated[Path | None, _PRETRAIN_OUTPUT] = None
    """Directory of the run; the same command goes on with a run that it finds there."""
    extrinsic_weight: tyro.conf.Suppress[float] = 0.0

    def config(self) -> TrainConfig:
        """The same, without the task's own reward."""
        if self.reward == NO_REWARD:
            raise ValueError("pre-training needs a reward other than 'none': the bonus is all there is")
        config = super().config()
        alone = replace(config, extrinsic_weight=0.0)
        directory = config.directory
        return alone if self.output else replace(alone, output=directory.with_name(f"pretrain-{directory.name}"))


def _print_speed(directory: Path, console: Console) -> None:
    from revd.runs.directory import RunDirectory
    from revd.suites.display import speed_line

    status = RunDirectory(directory).read_status()
    if status is not None and status.seconds is not None:
        print_line(console, speed_line(status))
