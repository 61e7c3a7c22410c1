"""Steps until the first reward at the far end of a corridor, for every exploration bonus.

    python benchmarks/chain.py [--seeds 10] [--methods none revd counts] [--output runs/chain.csv]

FastPPO with the same settings for all, `weight="auto"` with `strength=1`, and the defaults of each bonus. A run ends
with the first reward or after the budget of steps. Each run is written at once; the same command resumes.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from measure import machine, markdown_table
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from revd.arrays import Array
from revd.rewards import REWARDS
from revd.sb3 import FastPPO, IntrinsicRewardCallback

#: Steps of a run at most, of all environments together: 16 rollouts.
BUDGET = 32_768
N_ENVS = 32
PPO_SETTINGS: dict[str, Any] = {
    "n_steps": 64,
    "batch_size": 256,
    "n_epochs": 4,
    "learning_rate": 1e-3,
    "ent_coef": 0.01,
    "gamma": 0.99,
}
#: The bonus's advantages are as large as the task's. With 0.1, the decoy held all methods that were tried.
STRENGTH = 1.0
METHODS = ("none", *REWARDS)
FIELDS = ("method", "seed", "steps", "cpu_seconds")


class ChainVecEnv(VecEnv):
    """Corridors of rooms, all stepped at once: a small reward near the start, a large one at the far end.

    The agent sees its room as a one-hot vector. One action goes left, one goes right, any other stays. Which is which
    differs from room to room and is the same in all corridors. Room 0 pays `decoy` once an episode. The last room pays
    1 and ends the episode; so does the limit of steps, as a truncation.

    Args:
        n_envs: Corridors.
        rooms: Rooms of a corridor.
        start: Room in which an episode starts.
        decoy: Reward of room 0.
        limit: Steps of an episode.
        n_actions: Left, right, and some that stay.
    """

    def __init__(
        self,
        n_envs: int,
        *,
        rooms: int = 40,
        start: int = 5,
        decoy: float = 0.1,
        limit: int = 100,
        n_actions: int = 3,
    ) -> None:
        moves = np.tile([-1, 1, *[0] * (n_actions - 2)], (rooms, 1))
        # Without this, a policy that likes one action everywhere would reach the end by luck.
        self.moves = np.random.default_rng(0).permuted(moves, axis=1)
        self._one_hot = np.eye(rooms, dtype=np.int8)
        self._last, self._start, self._decoy, self._limit = rooms - 1, start, decoy, limit
        self.render_mode = None
        super().__init__(n_envs, spaces.Box(0, 1, (rooms,), np.int8), spaces.Discrete(n_actions))

    def reset(self) -> Array:
        self._rooms = np.full(self.num_envs, self._start)
        self._steps = np.zeros(self.num_envs, dtype=np.int64)
        self._decoy_left = np.ones(self.num_envs, dtype=bool)
        return self._observations()

    def step_async(self, actions: Array) -> None:
        self._rooms = np.clip(self._rooms + self.moves[self._rooms, actions], 0, self._last)
        self._steps += 1

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        found, decoy = self._rooms == self._last, (self._rooms == 0) & self._decoy_left
        self._decoy_left &= ~decoy
        dones = found | (self._steps == self._limit)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for env in np.flatnonzero(dones):
            infos[env]["terminal_observation"] = self._one_hot[self._rooms[env]]
            infos[env]["TimeLimit.truncated"] = not found[env]
        self._rooms[dones], self._steps[dones], self._decoy_left[dones] = self._start, 0, True
        rewards = (found + self._decoy * decoy).astype(np.float32)
        return self._observations(), rewards, dones, infos

    def _observations(self) -> Array:
        observations: Array = self._one_hot[self._rooms]
        return observations

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        raise NotImplementedError("corridors have no attributes to set")

    def env_method(self, method_name: str, *arguments: Any, indices: VecEnvIndices = None, **keywords: Any) -> Any:
        raise NotImplementedError("corridors have no methods")

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]

    def close(self) -> None:
        """Nothing to close."""


class StopAtReward(BaseCallback):
    """Ends the training with the first reward of 1; `steps` says when, or stays None."""

    steps: int | None = None

    def _on_step(self) -> bool:
        if self.locals["rewards"].max() >= 1:
            self.steps = self.num_timesteps
        return self.steps is None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many, from 1 on")
    parser.add_argument("--first-seed", type=int, default=1, help="another first seed")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, metavar="METHOD")
    parser.add_argument("--steps", type=int, default=BUDGET, help="the budget of a run")
    parser.add_argument("--strength", type=float, default=STRENGTH, help="of the bonus; not written to the file")
    parser.add_argument("--output", type=Path, default=Path("runs/chain.csv"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    measure(arguments.methods, seeds, arguments.output, budget=arguments.steps, strength=arguments.strength)
    print(f"{machine('cpu')}; {arguments.steps:,} steps at most, {arguments.seeds} seeds\n")
    runs = [run for run in read(arguments.output) if int(run["seed"]) in seeds]
    header = ("method", "found", "median steps", "10% to 90%", "CPU seconds per 10,000 steps")
    print(markdown_table(header, [row(method, runs, arguments.steps) for method in arguments.methods]))


def measure(methods: Iterable[str], seeds: Iterable[int], output: Path, **settings: Any) -> None:
    """Run what the file does not have yet, seed by seed."""
    output.parent.mkdir(parents=True, exist_ok=True)
    done = {(run["method"], int(run["seed"])) for run in read(output)}
    for seed in seeds:
        for method in methods:
            if (method, seed) not in done:
                append(output, run(method, seed, **settings))


def run(method: str, seed: int, *, budget: int = BUDGET, strength: float = STRENGTH) -> dict[str, Any]:
    """Train until the first reward; a row of the file. No steps: it was not found."""
    stop = StopAtReward()
    callbacks: list[BaseCallback] = (
        [stop] if method == "none" else [IntrinsicRewardCallback(method, strength=strength), stop]
    )
    model = FastPPO("MlpPolicy", ChainVecEnv(N_ENVS), seed=seed, device="cpu", **PPO_SETTINGS)
    began = time.process_time()
    model.learn(budget, callback=callbacks)
    return {
        "method": method,
        "seed": seed,
        "steps": stop.steps,
        "cpu_seconds": round(1e4 * (time.process_time() - began) / model.num_timesteps, 2),
    }


def row(method: str, runs: list[dict[str, str]], budget: int) -> list[str]:
    """A method's row of the table. A run that found nothing counts as more steps than any other."""
    own = [run for run in runs if run["method"] == method]
    steps = np.array([float(run["steps"] or np.inf) for run in own])
    low, high = np.quantile(steps, (0.1, 0.9), method="inverted_cdf")
    seconds = np.median([float(run["cpu_seconds"]) for run in own])
    found = f"{np.isfinite(steps).sum()} of {len(steps)}"
    middle, low, high = (shown(value, budget) for value in (np.median(steps), low, high))
    return [method, found, middle, f"{low} to {high}", f"{seconds:.1f}"]


def shown(steps: float, budget: int) -> str:
    return f"{steps:,.0f}" if np.isfinite(steps) else f"> {budget:,}"


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, values: dict[str, Any]) -> None:
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        writer.writerow(values)


if __name__ == "__main__":
    main()
