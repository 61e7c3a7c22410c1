"""`revd compare`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from revd.cli.shared import EXIT_FAILED
from revd.runs.config import NO_REWARD, NormalizeTask
from revd.runs.cpu_threads import available_cores, with_emulator_threads
from revd.runs.display import print_line
from revd.runs.parameters import Parameters
from revd.suites.comparison import (
    ComparisonConfig,
    check_comparison,
    comparison_runs,
    default_output,
    parse_methods,
)

if TYPE_CHECKING:
    from revd.analysis.reading.runs import RecordedRun
    from revd.suites.scheduler import RunProgress

_OUTPUT = tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: runs/compare-TASK)")
_THRESHOLD = tyro.conf.arg(metavar="FLOAT", help_behavior_hint="(default: that of the task, if revd knows one)")
_NAMES = tyro.conf.arg(metavar="NAME ...")


@dataclass(frozen=True, kw_only=True)
class CompareCommand:
    """Compare rewards on one task: a table, figures, and a verdict in words. Repeat the command to resume."""

    task: str
    """A name that `revd tasks` lists, any Gymnasium id, or one of your own: PACKAGE:ID or MODULE:CLASS."""
    rewards: Annotated[tuple[str, ...], _NAMES] = (NO_REWARD, "revd")
    """Names of `revd rewards`, MODULE:CLASS, NAME+NAME for a mixture, or none. NAME@WEIGHT has a fixed weight of its
    own, as in revd@0.1. What is compared with, none, is added if it is missing."""
    algos: Annotated[tuple[str, ...], _NAMES] = ("ppo",)
    """Algorithms, each with every reward: ppo, a2c, trpo, recurrent-ppo or maskable-ppo."""
    seeds: int = 3
    """Seeds of each method, from 1 on. With fewer than 5, nothing is called clear."""
    steps: int = 100_000
    """Environment steps of each run."""
    threshold: Annotated[float | None, _THRESHOLD] = None
    """Return whose first reaching is compared too."""
    n_envs: int = 10
    """Number of environments that are stepped together."""
    normalize: NormalizeTask = "none"
    """Scale the task's observations, its rewards, or both to unit variance while training."""
    weight: float | Literal["auto"] = "auto"
    """Weight of each bonus that has none of its own."""
    algo_params: Parameters = field(default_factory=Parameters)
    """Hyperparameters of the algorithms, such as n_steps=128 learning_rate=3e-4."""
    jobs: int = 0
    """Runs at a time; 0 for one on each processor core."""
    output: Annotated[Path | None, _OUTPUT] = None
    """Directory of the comparison. The same command resumes a comparison that is already there."""

    def config(self) -> ComparisonConfig:
        """The comparison."""
        from revd.analysis.statistics.thresholds import THRESHOLDS

        return ComparisonConfig(
            task=self.task,
            methods=parse_methods(self.algos, self.rewards, weight=self.weight),
            settings={"n_envs": self.n_envs, "normalize": self.normalize, "algo_params": self.algo_params},
            seeds=self.seeds,
            steps=self.steps,
            threshold=THRESHOLDS.get(self.task) if self.threshold is None else self.threshold,
            jobs=self.jobs,
            output=self.output or default_output(self.task),
        )

    def run(self) -> None:
        """Train all methods, then show what was found."""
        comparison = self.config()
        if NO_REWARD not in self.rewards:
            print_line(Console(), "reward none is added: the others are compared with it")
        train_and_show(comparison)


def train_and_show(comparison: ComparisonConfig) -> None:
    """Train all methods, then show the table, the verdicts and the figures."""
    for package in ("matplotlib", "rliable"):
        if find_spec(package) is None:
            raise ValueError(f"a comparison draws figures and needs {package}: pip install 'revd[plots]'")
    from revd.suites.display import showing_runs
    from revd.suites.scheduler import check_directories, train_all

    console = Console()
    configs = comparison_runs(comparison)
    check_directories(configs)
    check_comparison(comparison)
    print_line(
        console,
        f"{len(configs)} runs on {comparison.task}, {comparison.steps:,} steps each, {comparison.processes} at a time; "
        f"they are kept in {comparison.output}",
    )
    cores = available_cores() // comparison.processes
    with showing_runs(console) as watch:
        runs = train_all(
            [with_emulator_threads(config, cores) for config in configs], jobs=comparison.processes, watch=watch
        )
    _show(console, comparison, runs)


def _show(console: Console, comparison: ComparisonConfig, runs: "Sequence[RunProgress]") -> None:
    from revd.analysis.reading.runs import load_run
    from revd.analysis.statistics.grouping import name_variants
    from revd.analysis.statistics.scores import runs_with_score

    unfinished = [run for run in runs if run.status.state != "finished"]
    done = [load_run(run.config.directory) for run in runs if run not in unfinished]
    scored = runs_with_score(name_variants(done))
    if scored:
        _show_results(console, comparison, scored)
    elif done:
        print_line(console, f"no episode ended within {comparison.steps:,} steps: try more --steps")
    for run in unfinished:
        reason = run.status.error or "it ended before its last step"
        print_line(console, f"{run.status.state}: {run.config.directory}: {reason} (see its log.txt)")
    if unfinished:
        sys.exit(EXIT_FAILED)


def _show_results(console: Console, comparison: ComparisonConfig, runs: "list[RecordedRun]") -> None:
    from revd.analysis.drawing.figures import learning_curves
    from revd.analysis.drawing.task_comparison import task_comparison_figure
    from revd.analysis.statistics.method_summary import summarize
    from revd.analysis.statistics.task_results import task_results
    from revd.analysis.statistics.verdicts import verdicts
    from revd.analysis.writing.image_files import save_figure
    from revd.analysis.writing.summary_table import summary_table
    from revd.analysis.writing.verdict_text import verdict_lines

    threshold, directory = comparison.threshold, comparison.output
    console.print(summary_table(summarize(runs, threshold=threshold), threshold=threshold))
    found = verdicts(runs, threshold=threshold)
    for line in verdict_lines(found):
        print_line(console, line)
    curves = save_figure(learning_curves(runs, threshold=threshold), directory / "learning-curve.png")
    print_line(console, f"Learning curve: {curves}")
    chances = save_figure(task_comparison_figure(task_results(runs), found), directory / "comparison.png")
    print_line(console, f"Comparison: {chances}")
    print_line(console, f"Next: revd report {directory}")
