"""`revd suite`."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from revd.cli.archived_runs import without_archived
from revd.cli.shared import EXIT_FAILED
from revd.runs.config import NO_REWARD, TrainConfig
from revd.runs.cpu_threads import available_cores, with_emulator_threads
from revd.runs.display import print_line
from revd.suites.catalog import SUITES
from revd.suites.grids import suite_runs
from revd.suites.launchers.config import LauncherConfig
from revd.suites.launchers.interface import Launcher

_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/NAME)")
_SHARD = tyro.conf.arg(metavar="I/N")
_STEPS = tyro.conf.arg(metavar="INT", help_behavior_hint="(default: the suite's own)")


@dataclass(frozen=True, kw_only=True)
class SuiteCommand:
    """Run a grid of trainings. Repeat the command to resume after an interruption."""

    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")] = ""
    """The suite. Without a name, all suites are listed."""
    tasks: tuple[str, ...] = ()
    """Only these of its tasks, or those that it runs only if they are named."""
    methods: tuple[str, ...] = ()
    """Only these of its methods, such as ppo and ppo+revd, likewise."""
    reward: tuple[str, ...] = ()
    """These rewards with each of its algorithms, besides --methods or instead of all its methods: names of
    `revd rewards`, MODULE:CLASS, NAME+NAME for a mixture, or none."""
    seeds: tuple[int, ...] = ()
    """These seeds instead of its own."""
    steps: Annotated[int | None, _STEPS] = None
    """Environment steps of each run instead of the suite's."""
    jobs: int = 0
    """Runs at a time; 0 for one on each processor core, or on a Ray cluster for as many as it has room for."""
    retries: int = 1
    """How often a failed run is started again."""
    shard: Annotated[str, _SHARD] = "1/1"
    """Only every N-th run, from the I-th on, for array jobs of a cluster."""
    archived: tuple[Path, ...] = ()
    """Leave out the runs that these archives hold, FILE.csv.gz of `revd archive`, to continue on another machine."""
    dry_run: bool = False
    """Only list the runs."""
    output: Annotated[Path | None, _OUTPUT] = None
    """Directory of the runs."""
    launch_options: Annotated[LauncherConfig, tyro.conf.OmitArgPrefixes] = field(default_factory=LauncherConfig)

    def run(self) -> None:
        """List the suites or the runs, or run them."""
        console = Console()
        if not self.name:
            console.print(suites_table())
            return
        runs = suite_runs(
            self.name,
            tasks=self.tasks,
            methods=self.methods,
            rewards=self.reward,
            seeds=self.seeds,
            steps=self.steps,
            output=self.output,
            shard=parse_shard(self.shard),
        )
        for name in ("jobs", "retries"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        _check_rewards(self.reward)
        runs = without_archived(runs, self.archived)
        if self.dry_run:
            _list(console, runs)
        else:
            self._train_all(console, runs)

    def _train_all(self, console: Console, configs: list[TrainConfig]) -> None:
        from revd.suites.display import showing_runs
        from revd.suites.scheduler import train_all

        with self.launch_options.open() as launcher:
            jobs, cores, where = self._share(len(configs), launcher)
            print_line(console, f"{len(configs)} runs{where}")
            if not configs:
                return
            with showing_runs(console) as watch:
                runs = train_all(
                    [with_emulator_threads(config, cores) for config in configs],
                    jobs=jobs,
                    watch=watch,
                    retries=self.retries,
                    launcher=launcher,
                )
        unfinished = [run for run in runs if run.status.state != "finished"]
        for run in unfinished:
            reason = run.status.error or "it ended before its last step"
            print_line(console, f"{run.status.state}: {run.config.directory}: {reason} (see its log.txt)")
        directory = os.path.commonpath([config.directory.parent for config in configs])
        print_line(console, f"Next: revd figure {directory}, revd report {directory}")
        if unfinished:
            sys.exit(EXIT_FAILED)

    def _share(self, runs: int, launcher: Launcher) -> tuple[int, int, str]:
        """Runs at a time, cores of each, and a description. A Ray cluster queues runs that it has no room for."""
        if self.launch_options.launcher == "ray":
            return self.jobs or max(runs, 1), int(self.launch_options.cpus_per_run), f" on {launcher}"
        jobs = self.jobs or available_cores()
        return jobs, available_cores() // jobs, f", {jobs} at a time"


def _check_rewards(rewards: tuple[str, ...]) -> None:
    """Raise a ValueError for an unknown reward, before any run has started."""
    if rewards:
        from revd.rewards import check_parameters

        for reward in rewards:
            if reward != NO_REWARD:
                check_parameters(reward, {})


def suites_table() -> Table:
    """Every suite with its number of runs."""
    table = Table(header_style="bold")
    table.add_column("suite", no_wrap=True)
    table.add_column("runs", justify="right")
    table.add_column("what it is")
    for name, suite in SUITES.items():
        table.add_row(name, str(len(suite_runs(name))), suite.description)
    return table


def parse_shard(text: str) -> tuple[int, int]:
    """`"2/8"` -> `(2, 8)`."""
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit()):
        raise ValueError(f"shard must be I/N, as in 2/8, got {text!r}")
    return int(index), int(count)


def _list(console: Console, configs: list[TrainConfig]) -> None:
    from revd.suites.scheduler import check_directories

    check_directories(configs)
    for config in configs:
        print_line(console, config.command())
    steps = sum(config.steps for config in configs)
    print_line(console, f"{len(configs)} runs, {steps:,} steps in all; nothing was started")
