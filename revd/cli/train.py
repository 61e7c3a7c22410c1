"""`revd train` and `revd pretrain`."""

import sys
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

import tyro
from rich.console import Console

from revd.cli.parsing import SPARSE, is_given, mark_default
from revd.cli.shared import EXIT_FAILED, EXIT_INTERRUPTED
from revd.cli.watch import WatchCommand, require_matplotlib
from revd.former_defaults import FORMER_WEIGHT
from revd.runs.config import AUTO, NO_REWARD, TrainConfig
from revd.runs.display import print_line
from revd.runs.presets import PRESET_FIELDS, preset_config
from revd.storage import run_files

#: The files of a finished run that are listed at its end.
CONTENTS = {
    run_files.MODEL: "the trained model, as SB3 saves it",
    run_files.VEC_NORMALIZE: "its normalisation of observations and rewards, for VecNormalize.load",
    run_files.EPISODES: "every episode's return",
    run_files.PROGRESS: "the logger's numbers; the same for TensorBoard beside it",
    run_files.CONFIG: "everything that was set",
}

if TYPE_CHECKING:
    from revd.runs.directory import RunDirectory

_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/TASK/ALGO-REWARD-seedSEED)")
_PRETRAIN_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/TASK/pretrain-ALGO-REWARD-seedSEED)")
_INIT = tyro.conf.arg(metavar="RUN", help_behavior_hint="(default: a fresh policy)")
_SPARSE = tyro.conf.arg(help_behavior_hint="(default: nothing is hidden; without P, 0.9)")


@dataclass(frozen=True, kw_only=True)
class TrainCommand(TrainConfig):
    """Train one agent with an exploration reward. Everything about the run is kept in one directory."""

    output: Annotated[Path | None, _OUTPUT] = None
    """Directory of the run. The same command resumes a run that is already there."""
    init_from: Annotated[Path | None, _INIT] = None
    """Run whose policy is the initial one, such as one of `revd pretrain`; with --trust, a model.zip of SB3."""
    sparse: Annotated[float | None, SPARSE, _SPARSE] = None
    """Probability that a step's reward is hidden from the agent. Reported returns are not affected."""
    preset: Literal["none", "paper"] = "none"
    """Defaults of flags that are not given: ours, or those of the paper's tables for atari/… and bullet/… tasks."""
    progress: bool = True
    """Show the progress of the training."""
    video: bool = False
    """At the end, film one episode of the trained agent, as `revd watch` does."""
    trust: bool = False
    """Allow --init-from to be a model.zip of Stable-Baselines3. It contains pickles, which can execute any code."""

    def __post_init__(self) -> None:
        """Do nothing: `config` checks the fields, so that errors are printed as ours rather than the parser's."""

    @classmethod
    def nothing_given(cls) -> Self:
        """The command before parsing, with marked defaults for the flags that a preset may set."""
        defaults = {entry.name: mark_default(entry.default) for entry in fields(cls) if entry.name in PRESET_FIELDS}
        return cls(task=tyro.MISSING, **defaults)

    def config(self) -> TrainConfig:
        """The training, with the preset's values for flags that were not given; parameters are merged one by one."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(TrainConfig)}
        return preset_config(self.preset, **{name: value for name, value in values.items() if is_given(value)})

    def run(self) -> None:
        """Train, and list the files of the run."""
        config = self.config()
        console = Console()
        if self.video:
            require_matplotlib()
        from revd.runs.directory import RunDirectory

        run = RunDirectory(config.directory)
        by_default = config.reward != NO_REWARD and config.weight == AUTO and not is_given(self.weight)
        if by_default and run.predates_automatic_weights:
            config = replace(config, weight=FORMER_WEIGHT)
        run.check(config)
        if run.is_finished(config.steps):
            print_line(console, f"{run.path} is finished already; more --steps would resume it")
        else:
            self._check_names(config)
            print_line(console, f"{config.method} on {config.task}, {config.steps:,} steps, into {run.path}")
            self._train(run, config, console)
            _print_speed(run, console)
            print_line(console, f"Done. In {run.path}:")
            for name, meaning in CONTENTS.items():
                if (run.path / name).exists():
                    print_line(console, f"  {name:18}{meaning}")
        if self.video:
            # Trusted, since the user has just named the task and its package.
            WatchCommand(directory=run.path, trust=True).run()

    def _check_names(self, config: TrainConfig) -> None:
        """Raise a ValueError for unknown names, and for a task that cannot be filmed at the end."""
        from revd.runs.train import check_names

        check_names(config)
        if self.video:
            from revd.runs.watch import check_drawable

            check_drawable(config)

    def _train(self, run: "RunDirectory", config: TrainConfig, console: Console) -> None:
        from revd.runs.display import showing_progress
        from revd.runs.lease import LeaseLostError
        from revd.runs.termination import interrupt_on_termination
        from revd.runs.train import RunFailedError, failure_message, train_in

        progress = showing_progress(console, config.steps) if self.progress else nullcontext()
        try:
            with interrupt_on_termination(), progress as report:
                train_in(run, config, report=report, trust=self.trust)
        except (RunFailedError, LeaseLostError) as error:
            print(f"revd: {error}", file=sys.stderr)
            sys.exit(EXIT_FAILED)
        except KeyboardInterrupt as error:
            print(f"revd: {failure_message(error, run)}", file=sys.stderr)
            sys.exit(EXIT_INTERRUPTED)


@dataclass(frozen=True, kw_only=True)
class PretrainCommand(TrainCommand):
    """Train on the bonus alone; `revd train --init-from RUN` then fine-tunes the policy on the task's reward."""

    output: Annotated[Path | None, _PRETRAIN_OUTPUT] = None
    """Directory of the run. The same command resumes a run that is already there."""
    extrinsic_weight: tyro.conf.Suppress[float] = 0.0

    def config(self) -> TrainConfig:
        """The training without the task's reward."""
        if self.reward == NO_REWARD:
            raise ValueError("pre-training needs an exploration reward, not 'none': it trains on the bonus alone")
        config = super().config()
        alone = replace(config, extrinsic_weight=0.0)
        directory = config.directory
        return alone if self.output else replace(alone, output=directory.with_name(f"pretrain-{directory.name}"))


def _print_speed(run: "RunDirectory", console: Console) -> None:
    from revd.runs.display import speed_line

    status = run.read_status()
    if status is not None and status.seconds is not None:
        print_line(console, speed_line(status))
