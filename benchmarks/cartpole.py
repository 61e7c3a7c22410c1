"""Do FastPPO and SB3's PPO reach the same return?

    python benchmarks/cartpole.py [--device cpu|cuda] [--seeds 5]

CartPole-v1 with RL Zoo's tuned settings; the highest possible return is 500. Exits with 1 if the mean returns differ by
more than 5% of it.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import mean
from typing import Any

import torch
from measure import machine, markdown_table
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

from revd.sb3 import FastPPO
from revd.training.vec_env import make_vec_env

STEPS = 100_000
MAX_RETURN = 500
#: From RL Zoo, hyperparams/ppo.yml, "CartPole-v1".
SETTINGS: dict[str, Any] = {
    "n_steps": 32,
    "batch_size": 256,
    "gae_lambda": 0.8,
    "gamma": 0.98,
    "n_epochs": 20,
    "ent_coef": 0.0,
    "learning_rate": lambda remaining: 1e-3 * remaining,
    "clip_range": lambda remaining: 0.2 * remaining,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    returns: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for seed in range(arguments.seeds):
        for kind in (PPO, FastPPO):
            mean_return, took = train(kind, seed, arguments.device)
            returns.setdefault(kind.__name__, []).append(mean_return)
            seconds.setdefault(kind.__name__, []).append(took)
    print(f"{machine(arguments.device)}; CartPole-v1, {STEPS:,} steps, {arguments.seeds} seeds\n")
    rows = [
        [name, f"{mean(values):.1f}", f"{min(values):.1f}", f"{mean(seconds[name]):.1f}"]
        for name, values in returns.items()
    ]
    print(markdown_table(("", "mean return", "lowest", "seconds"), rows))
    sys.exit(abs(mean(returns["PPO"]) - mean(returns["FastPPO"])) > 0.05 * MAX_RETURN)


def train(kind: Any, seed: int, device: str) -> tuple[float, float]:
    """Train; return the mean return of 20 episodes after the training, and its seconds."""
    model = kind("MlpPolicy", make_vec_env("CartPole-v1", n_envs=8, seed=seed), seed=seed, device=device, **SETTINGS)
    began = time.perf_counter()
    model.learn(STEPS)
    took = time.perf_counter() - began
    mean_return, _ = evaluate_policy(model, make_vec_env("CartPole-v1", seed=1_000 + seed), n_eval_episodes=20)
    return float(mean_return), took  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
