"""Does FastPPO learn what SB3's PPO learns? `python benchmarks/breakout.py --device cuda --output DIR`.

Breakout with RL Zoo's settings for Atari games, some seeds of each at the same time, one process each. Writes every
game's score to DIR/scores.csv, draws DIR/breakout.png, and prints the mean score of the last hundred games.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import time
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from measure import machine, markdown_table
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from revd.sb3 import FastPPO
from revd.sb3.atari import AtariVecEnv

KINDS: dict[str, Any] = {"PPO": PPO, "FastPPO": FastPPO}
N_ENVS = 8
#: Of stable-baselines3's RL Zoo, hyperparams/ppo.yml, "atari".
SETTINGS: dict[str, Any] = {
    "n_steps": 128,
    "n_epochs": 4,
    "batch_size": 256,
    "learning_rate": lambda left: 2.5e-4 * left,
    "clip_range": lambda left: 0.1 * left,
    "vf_coef": 0.5,
    "ent_coef": 0.01,
}
GAMES = 100


class Job(NamedTuple):
    kind: str
    seed: int
    steps: int
    device: str
    threads: int


class Scores(BaseCallback):
    """Keeps the score of every game, and when it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int, float]] = []

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.rows.append((self.num_timesteps, info["episode"]["r"]))
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--seeds", type=int, nargs=2, default=(2, 4), help="how many of PPO, how many of FastPPO")
    parser.add_argument("--threads", type=int, default=4, help="of each training's emulators; torch has one")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    jobs = [
        Job(kind, seed, arguments.steps, arguments.device, arguments.threads)
        for kind, seeds in zip(KINDS, arguments.seeds, strict=True)
        for seed in range(seeds)
    ]
    with multiprocessing.get_context("spawn").Pool(len(jobs)) as pool:
        results = dict(zip(jobs, pool.map(learn, jobs, chunksize=1), strict=True))
    arguments.output.mkdir(parents=True, exist_ok=True)
    write(results, arguments.output / "scores.csv")
    draw(results, arguments.output / "breakout.png")
    torch.set_num_threads(1)
    print(f"{machine(arguments.device)}; Breakout, {arguments.steps:,} steps, {len(jobs)} trainings at once\n")
    rows = [
        [f"{job.kind}, seed {job.seed}", f"{mean(score for _, score in scores[-GAMES:]):.1f}", f"{took:.0f}"]
        for job, (scores, took) in results.items()
    ]
    print(markdown_table(("", f"mean score of the last {GAMES} games", "seconds"), rows))


def learn(job: Job) -> tuple[list[tuple[int, float]], float]:
    """The games of a training, and the seconds that it took."""
    torch.set_num_threads(1)
    env = AtariVecEnv("breakout", N_ENVS, threads=job.threads)
    env.seed(job.seed)
    model = KINDS[job.kind]("CnnPolicy", env, seed=job.seed, device=job.device, **SETTINGS)
    scores = Scores()
    began = time.perf_counter()
    model.learn(job.steps, callback=scores)
    took = time.perf_counter() - began
    env.close()
    return scores.rows, took


def write(results: dict[Job, tuple[list[tuple[int, float]], float]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("trainer", "seed", "steps", "score"))
        for job, (scores, _) in results.items():
            writer.writerows((job.kind, job.seed, *row) for row in scores)


def draw(results: dict[Job, tuple[list[tuple[int, float]], float]], path: Path) -> None:
    """The running mean of the last hundred games of each training."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for job, (scores, _) in results.items():
        steps, values = np.array(scores).reshape(-1, 2).T
        smooth = [values[max(0, index - GAMES + 1) : index + 1].mean() for index in range(len(values))]
        colour = "#6b6b6b" if job.kind == "PPO" else "#c8102e"
        axes.plot(
            steps / 1e3,
            smooth,
            color=colour,
            linestyle=("-", "--", ":", "-.")[job.seed % 4],
            label=f"{job.kind}, seed {job.seed}",
        )
    axes.set_xlabel("environment steps, thousands")
    axes.set_ylabel(f"mean score of the last {GAMES} games")
    axes.set_title("Breakout: SB3's PPO and FastPPO")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
