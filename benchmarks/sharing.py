"""Several trainings on one GPU: `python benchmarks/sharing.py [--jobs 1 2 4] [--device cuda]`.

Trains the paper's PPO+REVD on an Atari game, several trainings at once like `revd suite --jobs N`, and compares them
with one training of SB3's PPO without a bonus. Steps per second are those of the median rollout of each training,
including its update, from the times in the runs' logs. The first rollouts, in which CUDA graphs are captured, do not
count.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path
from statistics import median

import torch
from measure import machine, markdown_table

from revd.runs.config import TrainConfig
from revd.runs.cpu_threads import available_cores, with_emulator_threads
from revd.runs.presets import preset_config
from revd.storage.run_files import PROGRESS
from revd.suites.scheduler import train_all

WARM_UP_ROLLOUTS = 4
PHASES = ("environment", "acting", "bonus", "update")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--task", default="atari/space-invaders")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rollouts", type=int, default=20, help="of each training")
    parser.add_argument("--without-reference", action="store_true", help="do not train with SB3's PPO")
    arguments = parser.parse_args()
    rows: list[list[str]] = []
    reference: float | None = None
    with tempfile.TemporaryDirectory() as folder:
        for jobs in [1] * (not arguments.without_reference) + arguments.jobs:
            first = reference is None and not arguments.without_reference
            speeds = [speed(config) for config in train(arguments, jobs, Path(folder) / str(len(rows)), sb3=first)]
            reference = sum(speeds) if first else reference
            against = "" if reference is None else f"{sum(speeds) / reference:.2f}"
            rows.append(
                ["SB3's PPO" if first else "PPO+REVD", str(jobs), f"{min(speeds):,.0f}", f"{sum(speeds):,.0f}", against]
            )
    print(f"{machine(arguments.device)}; {arguments.task}; {available_cores()} cores\n")
    print(markdown_table(("", "at once", "slowest, steps/s", "all, steps/s", "against SB3's"), rows))


def train(arguments: argparse.Namespace, jobs: int, output: Path, *, sb3: bool) -> list[TrainConfig]:
    """Run `jobs` trainings at once, and return their configs."""
    configs = [
        preset_config(
            "paper",
            task=arguments.task,
            algo="ppo",
            reward="none" if sb3 else "revd",
            trainer="sb3" if sb3 else "auto",
            seed=seed,
            device=arguments.device,
            output=output / str(seed),
        )
        for seed in range(jobs)
    ]
    steps = arguments.rollouts * configs[0].n_envs * configs[0].algo_params["n_steps"]
    configs = [with_emulator_threads(_shortened(config, steps), available_cores() // jobs) for config in configs]
    for run in train_all(configs, jobs=jobs, watch=lambda _: None):
        if run.status.state != "finished":
            raise SystemExit(f"{run.config.directory}: {run.status.state}: {run.status.error}")
    return configs


def _shortened(config: TrainConfig, steps: int) -> TrainConfig:
    """The same training with fewer steps."""
    return TrainConfig.from_dict({**config.to_dict(), "steps": steps, "checkpoint_every": steps})


def speed(config: TrainConfig) -> float:
    """Steps per second of the median rollout."""
    with (config.directory / PROGRESS).open(newline="") as file:
        rows = list(csv.DictReader(file))[WARM_UP_ROLLOUTS:]
    seconds = median(sum(float(row.get(f"time/{phase}") or 0) for phase in PHASES) for row in rows)
    return config.n_envs * int(config.algo_params["n_steps"]) / seconds


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
