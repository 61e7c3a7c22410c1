"""RLlib's PPO and PPO+REVD on MountainCar-v0.

    python benchmarks/rllib_mountain_car.py [--seeds 1 2 3] [--steps N]

The settings are those of `revd demo`, as far as RLlib has them, so that the curves can be compared with those of
Stable-Baselines3: ten environments (two env runners with five each), 128 steps of each in a batch, SB3's defaults for
PPO and its networks, and normalised observations. The bonus has a fixed weight of 1. Writes the returns of all episodes
as CSV and the learning curves as a PNG, and prints a table.
"""

from __future__ import annotations

import argparse
import csv
from itertools import product
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import ray
from measure import markdown_table
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

import revd.rllib
from revd.analysis.drawing.figures import learning_curves
from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.curves import SeedRange
from revd.analysis.statistics.method_summary import summarize
from revd.analysis.writing.image_files import save_figure
from revd.episodes import Episodes
from revd.suites.demo import TASK, THRESHOLD

ENVS, STEPS, WEIGHT = 10, 128, 1.0
METHODS = {"PPO": None, "PPO+REVD": "revd"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of each method")
    parser.add_argument("--steps", type=int, default=120_000, help="environment steps of each run")
    divisors = [number for number in range(1, ENVS + 1) if ENVS % number == 0]
    parser.add_argument("--runners", type=int, default=2, choices=divisors, help=f"env runners of {ENVS} environments")
    parser.add_argument("--output", type=Path, default=Path("runs/rllib-mountain-car"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    ray.init(num_cpus=arguments.runners + 1, include_dashboard=False, log_to_driver=False)
    runs = []
    for seed, method in product(arguments.seeds, METHODS):
        runs.append(train(method, seed=seed, steps=arguments.steps, runners=arguments.runners))
        write_csv(runs, arguments.output / "episodes.csv")
    ray.shutdown()
    figure = learning_curves(runs, threshold=THRESHOLD)
    save_figure(figure, arguments.output / "curves.png")
    print(table(runs))


def train(method: str, *, seed: int, steps: int, runners: int) -> RecordedRun:
    config = ppo(seed=seed, runners=runners)
    reward = METHODS[method]
    if reward is not None:
        config = revd.rllib.with_intrinsic_reward(config, reward, weight=WEIGHT)
    algorithm = config.build_algo()
    ends: list[int] = []
    returns: list[float] = []
    taken = 0
    while taken < steps:
        results = algorithm.train()["env_runners"]
        taken = int(results["num_env_steps_sampled_lifetime"])
        # RLlib logs a single return as a number instead of a list.
        new = np.atleast_1d(results.get("returns", [])).tolist()
        returns += new
        ends += [taken] * len(new)
    algorithm.stop()
    print(f"{method}, seed {seed}: {np.mean(returns[-100:]):.1f} after {taken:,} steps", flush=True)
    return RecordedRun(
        directory=Path(),
        task=TASK,
        method=method,
        seed=seed,
        total_steps=steps,
        reached=taken,
        state="finished",
        episodes=Episodes(steps=np.array(ends), returns=np.array(returns)),
    )


def ppo(*, seed: int, runners: int) -> PPOConfig:
    """The settings of `revd demo` as RLlib's config."""
    orthogonal: dict[str, Any] = {
        "fcnet_kernel_initializer": "orthogonal_",
        "fcnet_kernel_initializer_kwargs": {"gain": sqrt(2)},
    }
    zeros: dict[str, Any] = {"fcnet_bias_initializer": "zeros_", "head_fcnet_bias_initializer": "zeros_"}
    return (
        PPOConfig()
        .environment(TASK)
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=ENVS // runners,
            env_to_module_connector=lambda *_: MeanStdFilter(),
        )
        .training(
            train_batch_size_per_learner=ENVS * STEPS,
            num_epochs=10,
            minibatch_size=64,
            lr=3e-4,
            gamma=0.99,
            lambda_=0.95,
            clip_param=0.2,
            vf_clip_param=inf,
            vf_loss_coeff=0.5,
            entropy_coeff=0.0,
            use_kl_loss=False,
            grad_clip=0.5,
            grad_clip_by="global_norm",
        )
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[64, 64],
                fcnet_activation="tanh",
                vf_share_layers=False,
                head_fcnet_kernel_initializer="orthogonal_",
                head_fcnet_kernel_initializer_kwargs={"gain": 0.01},
                **orthogonal,
                **zeros,
            )
        )
        .callbacks(on_episode_end=report_return)
        .debugging(seed=seed, log_level="ERROR")
    )


def report_return(*, episode: Any, prev_episode_chunks: Any = (), metrics_logger: Any, **kwargs: Any) -> None:
    """Log the return of the whole episode, including its parts in earlier batches."""
    total = episode.get_return() + sum(chunk.get_return() for chunk in prev_episode_chunks)
    metrics_logger.log_value("returns", total, reduce="item_series")


def write_csv(runs: list[RecordedRun], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "seed", "steps", "return"])
        for run in runs:
            for steps, value in zip(run.episodes.steps, run.episodes.returns, strict=True):
                writer.writerow([run.method, run.seed, steps, value])


def table(runs: list[RecordedRun]) -> str:
    rows = [
        [
            summary.method,
            "never" if summary.reached_by is None else bracketed(summary.reached_by, ",.0f"),
            f"{summary.reached} of {summary.seeds}",
            bracketed(summary.final, ".1f"),
        ]
        for summary in summarize(runs, threshold=THRESHOLD)
    ]
    return markdown_table(("method", f"steps to reach {THRESHOLD:g}", "reached", "final return"), rows)


def bracketed(interval: SeedRange, style: str) -> str:
    return f"{interval.mean:{style}} [{interval.low:{style}}, {interval.high:{style}}]"


if __name__ == "__main__":
    main()
