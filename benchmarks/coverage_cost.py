"""What counting visited states costs: its share of the CPU seconds of a training.

    python benchmarks/coverage_cost.py [--steps 100000]

FastPPO trains with ten environments at the settings of `training.py`, and DQN with one environment for a tenth of the
steps, each with a `CoverageCallback` alone. Its seconds are the median of its calls inside this training, times their
number; those of the training are the processor's. So other work on the machine matters little.
"""

import argparse
import time
from statistics import median
from typing import Any

import torch
from measure import machine, markdown_table
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from training import PPO_SETTINGS

from revd.coverage.defaults import default_grid
from revd.envs.tasks import Engine, find_task
from revd.sb3 import CoverageCallback, FastPPO
from revd.training.vec_env import make_vec_env

#: Task, engine and algorithm of each row.
ROWS: tuple[tuple[str, Engine, type[BaseAlgorithm]], ...] = (
    ("classic/mountain-car", "envpool", FastPPO),
    ("classic/mountain-car", "gymnasium", FastPPO),
    ("minigrid/door-key-8x8", "envpool", FastPPO),
    ("minigrid/door-key-8x8", "gymnasium", FastPPO),
    ("classic/cart-pole", "gymnasium", DQN),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps of each training")
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    rows = []
    for task, engine, algorithm in ROWS:
        counting, total, taken = measure(task, engine, algorithm, steps)
        rows.append([task, engine, algorithm.__name__, f"{counting / taken * 1e6:.1f}", f"{counting / total:.2%}"])
    print(machine("cpu"), end="\n\n")
    print(markdown_table(["task", "engine", "algorithm", "microseconds per step", "share of the time"], rows))


def measure(task: str, engine: Engine, algorithm: type[BaseAlgorithm], steps: int) -> tuple[float, float, int]:
    """The seconds of the callback, those of the training, and its steps."""
    on_policy = algorithm is FastPPO
    env = make_vec_env(task, n_envs=10 if on_policy else 1, engine=engine, normalize="observations")
    callback = TimedCoverage(default_grid(find_task(task).gymnasium_id, env.observation_space))
    options = PPO_SETTINGS[find_task(task).family] if on_policy else {}
    model = algorithm("MlpPolicy", env, device="cpu", seed=0, **options)
    began = time.process_time()
    model.learn(steps if on_policy else steps // 10, callback=callback)
    env.close()
    seconds = sum(median(calls) * len(calls) for calls in (callback.steps, callback.rollouts))
    return seconds, time.process_time() - began, model.num_timesteps


class TimedCoverage(CoverageCallback):
    """Measures each of its calls. Reading the processor's clock would take longer than they do."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.steps: list[float] = []
        self.rollouts: list[float] = []

    def on_step(self) -> bool:
        began = time.perf_counter()
        proceed = super().on_step()
        self.steps.append(time.perf_counter() - began)
        return proceed

    def on_rollout_end(self) -> None:
        began = time.perf_counter()
        super().on_rollout_end()
        self.rollouts.append(time.perf_counter() - began)


if __name__ == "__main__":
    main()
