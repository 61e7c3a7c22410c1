"""Does FastPPO learn as well as SB3's PPO?

    python benchmarks/breakout.py --device cuda --output DIR

Trains Breakout with RL Zoo's settings for Atari games. All trainings run at the same time, each in its own process.
When a training ends, its scores are added to DIR/breakout.csv. In the end all scores of that file are drawn as
DIR/breakout.png, and the mean scores of the last hundred games are printed.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import ale_py
import gymnasium
import matplotlib.pyplot as plt
import numpy as np
import torch
from measure import machine, markdown_table
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack

from revd.sb3 import FastPPO
from revd.training.atari_vec_env import AtariVecEnv


def channels_last_ppo(*arguments: Any, **keywords: Any) -> PPO:
    """SB3's PPO with our memory layout: bit-equal to FastPPO on a CPU without overlap."""
    model = PPO(*arguments, **keywords)
    model.policy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


KINDS: dict[str, Any] = {
    "PPO": PPO,
    "FastPPO": FastPPO,
    "FastPPO without overlap": partial(FastPPO, overlap=False),
    "PPO in channels_last": channels_last_ppo,
}
COLOURS = dict(zip(KINDS, ("#6b6b6b", "#c8102e", "#1f5fa8", "#e0a000"), strict=True))
N_ENVS = 8
#: From RL Zoo, hyperparams/ppo.yml, "atari".
SETTINGS: dict[str, Any] = {
    "n_steps": 128,
    "n_epochs": 4,
    "batch_size": 256,
    "learning_rate": lambda remaining: 2.5e-4 * remaining,
    "clip_range": lambda remaining: 0.1 * remaining,
    "vf_coef": 0.5,
    "ent_coef": 0.01,
}
#: Games in a mean score.
WINDOW = 100
#: The step at which each game ended, and its score.
Games = list[tuple[int, float]]


class Job(NamedTuple):
    """One training."""

    kind: str
    seed: int
    steps: int
    until: int
    device: str
    threads: int
    zoo: bool


class ScoreRecorder(BaseCallback):
    """Records the score of every game, and stops the training at the step `until`."""

    def __init__(self, until: int) -> None:
        super().__init__()
        self.games: Games = []
        self._until = until

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.games.append((self.num_timesteps, info["episode"]["r"]))
        return self.num_timesteps < self._until


def main() -> None:
    options = parse_options()
    until = options.until or options.steps
    jobs = [
        Job(kind, seed, options.steps, until, options.device, options.threads, options.zoo)
        for kind, seeds in zip(KINDS, options.seeds, strict=True)
        for seed in range(options.first_seed, options.first_seed + seeds)
    ]
    path = options.output / f"{'breakout-zoo' if options.zoo else 'breakout'}.csv"
    known = {(job.kind, job.seed) for job in jobs} & set(read(path))
    if known:
        raise SystemExit(f"{path} already has {sorted(known)}; choose another --output or --first-seed")
    options.output.mkdir(parents=True, exist_ok=True)
    results = run(jobs, path)
    remark = "RL Zoo's environment" if options.zoo else "one line for each seed"
    draw(read(path), path.with_suffix(".png"), remark)
    torch.set_num_threads(1)
    print(f"{machine(options.device)}; Breakout, {until:,} steps, {len(jobs)} trainings at once\n")
    rows = [
        [f"{job.kind}, seed {job.seed}", f"{mean(score for _, score in games[-WINDOW:]):.1f}", f"{seconds:.0f}"]
        for job, (games, seconds) in results.items()
    ]
    print(markdown_table(("", f"mean score of the last {WINDOW} games", "seconds"), rows))
    if len(results) < len(jobs):
        raise SystemExit(f"{len(jobs) - len(results)} of {len(jobs)} trainings failed")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--steps", type=int, default=500_000, help="steps in which learning rate and clip range fall to 0"
    )
    parser.add_argument("--until", type=int, help="stop earlier, at this step")
    parser.add_argument(
        "--seeds", type=int, nargs=4, default=(2, 4, 0, 0), help=f"number of seeds of {', '.join(KINDS)}"
    )
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=4, help="emulator threads of each training; torch has one")
    parser.add_argument("--zoo", action="store_true", help="use RL Zoo's environment, which fires after each lost life")
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args()


def run(jobs: list[Job], path: Path) -> dict[Job, tuple[Games, float]]:
    """Run all trainings at once; append the games of each to a CSV file when it ends.

    Failed trainings are left out of the result.
    """
    results = {}
    with ProcessPoolExecutor(len(jobs), multiprocessing.get_context("spawn")) as pool:
        trainings = {pool.submit(learn, job): job for job in jobs}
        for training in as_completed(trainings):
            job, error = trainings[training], training.exception()
            if error is None:
                results[job] = training.result()
                append(job, results[job][0], path)
            else:
                print(f"{job.kind}, seed {job.seed} failed: {error!r}")
    return {job: results[job] for job in jobs if job in results}


def learn(job: Job) -> tuple[Games, float]:
    """Train; return the games and the seconds."""
    torch.set_num_threads(1)
    env = make_env(job)
    env.seed(job.seed)
    model = KINDS[job.kind]("CnnPolicy", env, seed=job.seed, device=job.device, **SETTINGS)
    recorder = ScoreRecorder(job.until)
    began = time.perf_counter()
    model.learn(job.steps, callback=recorder)
    seconds = time.perf_counter() - began
    env.close()
    return recorder.games, seconds


def make_env(job: Job) -> VecEnv:
    """Our environment, or RL Zoo's, which wraps single emulators in SB3's wrappers."""
    if not job.zoo:
        return AtariVecEnv("breakout", N_ENVS, threads=job.threads)
    gymnasium.register_envs(ale_py)
    kind = SubprocVecEnv if job.threads > 1 else DummyVecEnv
    env = make_atari_env("BreakoutNoFrameskip-v4", n_envs=N_ENVS, seed=job.seed, vec_env_cls=kind)
    return VecFrameStack(env, n_stack=4)


def append(job: Job, games: Games, path: Path) -> None:
    """Add the games of a training to a CSV file."""
    header = () if path.exists() else (("trainer", "seed", "steps", "score"),)
    with path.open("a", newline="") as file:
        csv.writer(file).writerows(header)
        csv.writer(file).writerows((job.kind, job.seed, *row) for row in games)


def read(path: Path) -> dict[tuple[str, int], Games]:
    """Read the games of each kind and seed."""
    games: dict[tuple[str, int], Games] = defaultdict(list)
    if not path.exists():
        return games
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            games[row["trainer"], int(row["seed"])].append((int(row["steps"]), float(row["score"])))
    return games


def draw(games: dict[tuple[str, int], Games], path: Path, remark: str) -> None:
    """Draw the running mean of the last hundred games of each training."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for kind, colour in COLOURS.items():
        label = kind
        for scores in (scores for (trainer, _), scores in games.items() if trainer == kind):
            steps, values = np.array(scores).reshape(-1, 2).T
            smooth = [values[max(0, index - WINDOW + 1) : index + 1].mean() for index in range(len(values))]
            axes.plot(steps / 1e3, smooth, color=colour, linewidth=1.2, alpha=0.85, label=label)
            label = "_"
    axes.set_xlabel("environment steps, thousands")
    axes.set_ylabel(f"mean score of the last {WINDOW} games")
    axes.set_title(f"Breakout: SB3's PPO and FastPPO, {remark}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
