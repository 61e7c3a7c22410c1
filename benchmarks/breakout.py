"""Does FastPPO learn what SB3's PPO learns? `python benchmarks/breakout.py --device cuda --output DIR`.

Breakout with RL Zoo's settings for Atari games, some seeds of each at the same time, one process each. Adds the scores
of a training's games to DIR/breakout.csv when it has ended, draws all that is there as DIR/breakout.png, and prints the
mean score of the last hundred games.
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


def in_channels_last(*arguments: Any, **keywords: Any) -> PPO:
    """SB3's PPO with our memory layout: on a CPU, and where nothing overlaps, what FastPPO is to the last bit."""
    model = PPO(*arguments, **keywords)
    model.policy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


KINDS: dict[str, Any] = {
    "PPO": PPO,
    "FastPPO": FastPPO,
    "FastPPO without overlap": partial(FastPPO, overlap=False),
    "PPO in channels_last": in_channels_last,
}
COLOURS = dict(zip(KINDS, ("#6b6b6b", "#c8102e", "#1f5fa8", "#e0a000"), strict=True))
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
Games = list[tuple[int, float]]


class Job(NamedTuple):
    kind: str
    seed: int
    steps: int
    until: int
    device: str
    threads: int
    zoo: bool


class Scores(BaseCallback):
    """Keeps the score of every game, and when it ended; ends the training early, if it should."""

    def __init__(self, until: int) -> None:
        super().__init__()
        self.rows: Games = []
        self._until = until

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.rows.append((self.num_timesteps, info["episode"]["r"]))
        return self.num_timesteps < self._until


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=500_000, help="in which rate and clip range fall to 0")
    parser.add_argument("--until", type=int, help="stop earlier, at this step")
    parser.add_argument("--seeds", type=int, nargs=4, default=(2, 4, 0, 0), help=f"how many of {', '.join(KINDS)}")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=4, help="of each training's emulators; torch has one")
    parser.add_argument("--zoo", action="store_true", help="in RL Zoo's environment, which fires after each lost life")
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    until = arguments.until or arguments.steps
    jobs = [
        Job(kind, seed, arguments.steps, until, arguments.device, arguments.threads, arguments.zoo)
        for kind, seeds in zip(KINDS, arguments.seeds, strict=True)
        for seed in range(arguments.first_seed, arguments.first_seed + seeds)
    ]
    name = "breakout-zoo" if arguments.zoo else "breakout"
    path = arguments.output / f"{name}.csv"
    known = {(job.kind, job.seed) for job in jobs} & set(read(path))
    if known:
        raise SystemExit(f"{path} has these already: {sorted(known)}; choose another --output or --first-seed")
    arguments.output.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(len(jobs), multiprocessing.get_context("spawn")) as pool:
        trainings = {pool.submit(learn, job): job for job in jobs}
        for training in as_completed(trainings):
            job, error = trainings[training], training.exception()
            if error is None:
                add(job, training.result()[0], path)
            else:
                print(f"{job.kind}, seed {job.seed} has failed: {error!r}")
    results = {job: training.result() for training, job in trainings.items() if training.exception() is None}
    draw(
        read(path),
        arguments.output / f"{name}.png",
        "RL Zoo's environment" if arguments.zoo else "one line for each seed",
    )
    torch.set_num_threads(1)
    print(f"{machine(arguments.device)}; Breakout, {until:,} steps, {len(jobs)} trainings at once\n")
    rows = [
        [f"{job.kind}, seed {job.seed}", f"{mean(score for _, score in scores[-GAMES:]):.1f}", f"{took:.0f}"]
        for job, (scores, took) in results.items()
    ]
    print(markdown_table(("", f"mean score of the last {GAMES} games", "seconds"), rows))
    if len(results) < len(jobs):
        raise SystemExit(f"{len(jobs) - len(results)} of {len(jobs)} trainings have failed")


def learn(job: Job) -> tuple[Games, float]:
    """The games of a training, and the seconds that it took."""
    torch.set_num_threads(1)
    env = make_env(job)
    env.seed(job.seed)
    model = KINDS[job.kind]("CnnPolicy", env, seed=job.seed, device=job.device, **SETTINGS)
    scores = Scores(job.until)
    began = time.perf_counter()
    model.learn(job.steps, callback=scores)
    took = time.perf_counter() - began
    env.close()
    return scores.rows, took


def make_env(job: Job) -> VecEnv:
    """Our environment, or SB3's wrappers around one emulator each, as RL Zoo has them."""
    if not job.zoo:
        return AtariVecEnv("breakout", N_ENVS, threads=job.threads)
    gymnasium.register_envs(ale_py)
    kind = SubprocVecEnv if job.threads > 1 else DummyVecEnv
    env = make_atari_env("BreakoutNoFrameskip-v4", n_envs=N_ENVS, seed=job.seed, vec_env_cls=kind)
    return VecFrameStack(env, n_stack=4)


def add(job: Job, scores: Games, path: Path) -> None:
    header = () if path.exists() else (("trainer", "seed", "steps", "score"),)
    with path.open("a", newline="") as file:
        csv.writer(file).writerows(header)
        csv.writer(file).writerows((job.kind, job.seed, *row) for row in scores)


def read(path: Path) -> dict[tuple[str, int], Games]:
    """The games of each kind and seed."""
    games: dict[tuple[str, int], Games] = defaultdict(list)
    if not path.exists():
        return games
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            games[row["trainer"], int(row["seed"])].append((int(row["steps"]), float(row["score"])))
    return games


def draw(games: dict[tuple[str, int], Games], path: Path, remark: str) -> None:
    """The running mean of the last hundred games of each training."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for kind, colour in COLOURS.items():
        label = kind
        for scores in (scores for (trainer, _), scores in games.items() if trainer == kind):
            steps, values = np.array(scores).reshape(-1, 2).T
            smooth = [values[max(0, index - GAMES + 1) : index + 1].mean() for index in range(len(values))]
            axes.plot(steps / 1e3, smooth, color=colour, linewidth=1.2, alpha=0.85, label=label)
            label = "_"
    axes.set_xlabel("environment steps, thousands")
    axes.set_ylabel(f"mean score of the last {GAMES} games")
    axes.set_title(f"Breakout: SB3's PPO and FastPPO, {remark}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
