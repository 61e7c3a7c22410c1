"""What a suite costs: CPU seconds of its methods over a few rollouts, and the hours of all its runs that follow.

    python benchmarks/suite_cost.py exploration --tasks minigrid/door-key-8x8 bullet/hopper

Every method trains for `--rollouts` rollouts with seed 101 in this process. Seconds are the processor's, so that other
work on the machine matters less. Starting a run is counted too. Hours are those of all seeds of the suite at its own
number of steps, one after the other on one core.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from measure import machine, markdown_table

from revd.runs.config import TrainConfig
from revd.runs.train import train
from revd.suites.catalog import find_suite
from revd.suites.grids import suite_runs


def seconds_per_step(config: TrainConfig, rollouts: int) -> float:
    """CPU seconds of a short training, for each of its steps."""
    steps: int = rollouts * config.n_envs * config.algo_params["n_steps"]
    with tempfile.TemporaryDirectory() as folder:
        short = replace(config, steps=steps, output=Path(folder) / "run", emulator_threads=1)
        began = time.process_time()
        train(short)
        return (time.process_time() - began) / steps


def main() -> None:
    """Print a table for each task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite")
    parser.add_argument("--tasks", nargs="+", default=())
    parser.add_argument("--methods", nargs="+", default=())
    parser.add_argument("--rollouts", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = len(find_suite(arguments.suite).seeds)
    runs = suite_runs(arguments.suite, tasks=arguments.tasks, methods=arguments.methods, seeds=[101])
    seconds_per_step(runs[0], 2)  # imports, and the first use of everything
    rows, hours = [], 0.0
    for config in runs:
        seconds = seconds_per_step(config, arguments.rollouts)
        spent = seeds * config.steps * seconds / 3600
        hours += spent
        name = config.directory.name.removesuffix("-seed101")
        rows.append([config.task, name, f"{1 / seconds:,.0f}", f"{config.steps:,}", f"{spent:.2f}"])
    print(machine("cpu"))
    columns = ["task", "method", "steps per CPU second", "steps of a run", f"hours of {seeds} seeds"]
    print(markdown_table(columns, rows))
    print(f"{hours:.1f} hours in all")


if __name__ == "__main__":
    main()
