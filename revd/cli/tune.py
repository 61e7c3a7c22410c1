"""`revd tune`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from revd.cli.shared import EXIT_FAILED
from revd.cli.train import TrainCommand
from revd.runs.cpu_threads import available_cores, with_emulator_threads
from revd.runs.display import print_line
from revd.suites.launchers.config import LauncherConfig
from revd.tuning.config import Metric, TuneConfig
from revd.tuning.parameters import make_space

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from revd.suites.launchers.interface import Launcher
    from revd.tuning.records import TrialRecord

_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/TASK/tune-ALGO-REWARD)")
_INIT = tyro.conf.arg(metavar="RUN", help_behavior_hint="(default: a fresh policy)")
_SEARCH = tyro.conf.arg(metavar="NAME[=VALUES]", help_behavior_hint="(default: weight)")


@dataclass(frozen=True, kw_only=True)
class TuneCommand(TrainCommand):
    """Search for the best weight of the bonus and other parameters. Repeat the command to resume."""

    output: Annotated[Path | None, _OUTPUT] = None
    """Directory of the search. The same command resumes a search that is already there."""
    init_from: Annotated[Path | None, _INIT] = None
    """Run whose policy is the initial one of all trials, such as one of `revd pretrain`."""
    seed: int = 0
    """Seed of the search, and the first seed of every trial."""
    search: Annotated[tuple[str, ...], _SEARCH] = ()
    """Parameters to search and their values: LOW:HIGH, LOW:HIGH:log for equal decades, or A,B,C, as in
    weight=0.001:1:log k=3,5,10. A name alone searches its usual values. If reward and algorithm share it, write
    reward.NAME or algo.NAME. Other flags fix the rest."""
    trials: int = 20
    """Number of trials in all. A larger number resumes a finished search."""
    seeds: int = 1
    """Seeds that each trial is averaged over."""
    metric: Metric = "final"
    """What is maximised: the task's return, without the bonus, in the last tenth of the training or over all of it."""
    pruner: bool = True
    """Stop trials early that are worse than the median of earlier ones."""
    jobs: int = 0
    """Runs at a time, here or on a Ray cluster; 0 for one on each processor core of this machine."""
    retries: int = 1
    """How often a failed run is started again."""
    dry_run: bool = False
    """Only show the parameters to search."""
    launch_options: Annotated[LauncherConfig, tyro.conf.OmitArgPrefixes] = field(default_factory=LauncherConfig)
    progress: tyro.conf.Suppress[bool] = True
    video: tyro.conf.Suppress[bool] = False
    trust: tyro.conf.Suppress[bool] = False

    def run(self) -> None:
        """Search, show the result, and print the command that repeats the best trial."""
        require_optuna()
        config = self.tuning()
        placed = self.launch_options.open()
        console = Console()
        from revd.tuning.directory import SearchDirectory
        from revd.tuning.display import space_table

        SearchDirectory(config.directory).open(config)
        console.print(space_table(config.space))
        print_line(console, _size(config))
        if self.dry_run:
            print_line(console, "Nothing was started.")
            return
        records = self._tune(console, config, placed)
        _show(console, config, records)
        _show_best(console, config, records)

    def _tune(
        self, console: Console, config: TuneConfig, placed: "AbstractContextManager[Launcher]"
    ) -> "list[TrialRecord]":
        from revd.tuning.display import trial_display
        from revd.tuning.driver import SearchFailedError, tune

        on_cluster = self.launch_options.launcher == "ray"
        cores = int(self.launch_options.cpus_per_run) if on_cluster else available_cores() // config.jobs
        shared = replace(config, training=with_emulator_threads(config.training, cores))
        try:
            with placed as launcher, trial_display(console, config) as watch:
                return tune(shared, watch=watch, launcher=launcher if on_cluster else None)
        except SearchFailedError as error:
            _show(console, config, error.records)
            print(f"revd: {error}", file=sys.stderr)
            sys.exit(EXIT_FAILED)

    def tuning(self) -> TuneConfig:
        """The config of the search."""
        if self.jobs < 0:
            raise ValueError(f"jobs must be at least 0, which is one for each core, got {self.jobs}")
        training = self.config()
        return TuneConfig(
            training=training,
            space=make_space(training, self.search),
            trials=self.trials,
            seeds=self.seeds,
            metric=self.metric,
            prune=self.pruner,
            jobs=self.jobs or available_cores(),
            retries=self.retries,
        )


def require_optuna() -> None:
    """Raise a ValueError if Optuna is not installed."""
    if find_spec("optuna") is None:
        raise ValueError("a search is made with Optuna: pip install 'revd[tune]'")


def _size(config: TuneConfig) -> str:
    training, runs = config.training, config.trials * config.seeds
    return (
        f"{_counted(config.trials, 'trial')} of {training.method} on {training.task}, {_counted(runs, 'run')} of "
        f"{training.steps:,} steps in all, {config.jobs} at a time, into {config.directory}"
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _show(console: Console, config: TuneConfig, records: "Sequence[TrialRecord]") -> None:
    from revd.tuning.directory import SearchDirectory
    from revd.tuning.display import summary, trials_table

    directory = SearchDirectory(config.directory)
    console.print(trials_table(records, caption=summary(records, trials=config.trials)))
    print_line(console, f"Table: {directory.results}; runs: {directory.trials}")
    failed = sum(one.state == "failed" for one in records)
    if failed:
        print_line(
            console,
            f"{_counted(failed, 'trial')} failed (see {directory.trials}/*/*/log.txt); the same command resumes "
            f"{'it' if failed == 1 else 'them'} from the last checkpoint",
        )


def _show_best(console: Console, config: TuneConfig, records: "Sequence[TrialRecord]") -> None:
    from revd.tuning.display import trial_names
    from revd.tuning.parameters import with_values
    from revd.tuning.records import all_scores_equal, best_trials

    if all_scores_equal(records):
        print_line(
            console,
            "No trial is the best: all that finished have the same score. More --steps, or other ranges of the "
            "parameters, may tell them apart.",
        )
        return
    first = best_trials(records)
    if not first:
        print("revd: no trial has finished, so there is no best one", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    if len(first) > 1:
        print_line(console, f"The best are {trial_names(first)}, with the same score; this is the first of them.")
    training = with_values(config.training, config.space, first[0].values)
    seeds = "" if config.seeds == 1 else f", with the first of its {config.seeds} seeds"
    print_line(console, f"The best again{seeds}: {replace(training, output=config.directory / 'best').command()}")
