"""Memory during a long training: PPO with REVD over true episodes in a cheap environment.

Run it with `make soak`; it takes a few minutes.

Episodes last 20 to 1,500 steps. Many of them span several rollouts, so the reward's memory has to grow and shrink.
Memory use must stay within 5% after the first tenth of the steps: the mean of each later tenth is compared with that of
the second, and the final peak with the peak after the first tenth.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from revd.arrays import Array
from revd.sb3 import IntrinsicRewardCallback
from revd.training.checked_vec_env import CheckedVecEnv

ALLOWED = 0.05
LENGTHS = (20, 1_500)
ROLLOUT = 256


class Walkers(VecEnv):
    """Random walks in eight dimensions that the actions push, vectorised with NumPy."""

    def __init__(self, n_envs: int, seed: int) -> None:
        super().__init__(n_envs, spaces.Box(-np.inf, np.inf, (8,)), spaces.Box(-1, 1, (8,)))
        self._generator = np.random.default_rng(seed)
        self._states = np.zeros((n_envs, 8), np.float32)
        self._left = np.zeros(n_envs, np.int64)
        self._actions = np.zeros((n_envs, 8), np.float32)

    def reset(self) -> Array:
        self._begin(np.arange(self.num_envs))
        return self._states.copy()

    def step_async(self, actions: Array) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        noise = self._generator.standard_normal(self._states.shape, dtype=np.float32)
        self._states = 0.99 * self._states + 0.1 * self._actions + 0.1 * noise
        self._left -= 1
        dones = self._left == 0
        rewards = self._states[:, 0].copy()
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": bool(done)} for done in dones]
        ended = np.flatnonzero(dones)
        for index in ended:
            infos[index]["terminal_observation"] = self._states[index].copy()
        self._begin(ended)
        return self._states.copy(), rewards, dones, infos

    def _begin(self, indices: Array) -> None:
        self._states[indices] = self._generator.standard_normal((len(indices), 8), dtype=np.float32)
        self._left[indices] = self._generator.integers(*LENGTHS, size=len(indices))

    def close(self) -> None:
        """Nothing to close."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **options: Any) -> list[Any]:
        raise NotImplementedError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


class MemoryWatch(BaseCallback):
    """Records the resident memory of this process after each rollout, and its peak so far."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []
        self.resident: list[float] = []
        self.peak: list[float] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.steps.append(self.num_timesteps)
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        self.resident.append(int(status["VmRSS"].split()[0]) / 1024)
        self.peak.append(int(status["VmHWM"].split()[0]) / 1024)


def tenths(watch: MemoryWatch) -> list[tuple[int, float, float]]:
    """For each tenth of the training: its last step, the mean resident memory, and the peak so far."""
    parts = np.searchsorted(watch.steps, np.arange(1, 11) * watch.steps[-1] / 10) + 1
    starts = [0, *parts[:-1]]
    return [
        (watch.steps[end - 1], float(np.mean(watch.resident[start:end])), watch.peak[end - 1])
        for start, end in zip(starts, parts, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--n-envs", type=int, default=16)
    parser.add_argument("--reward", default="revd")
    options = parser.parse_args()
    if options.steps < 50 * ROLLOUT * options.n_envs:
        parser.error(
            f"--steps must be at least {50 * ROLLOUT * options.n_envs:,}, fifty rollouts, got {options.steps:,}"
        )
    torch.set_num_threads(1)
    env = VecMonitor(CheckedVecEnv(Walkers(options.n_envs, seed=0), "walkers"))
    model = PPO("MlpPolicy", env, n_steps=ROLLOUT, batch_size=1_024, n_epochs=2, seed=0, device="cpu")
    bonus, watch = IntrinsicRewardCallback(options.reward, boundary="episode"), MemoryWatch()
    began = time.perf_counter()
    model.learn(options.steps, callback=[bonus, watch])
    seconds = time.perf_counter() - began
    print("|     steps | mean resident MiB | peak MiB |\n|---:|---:|---:|")
    for steps, resident, peak in tenths(watch):
        print(f"| {steps:,} | {resident:.1f} | {peak:.1f} |")
    print(f"\n{watch.steps[-1]:,} steps in {seconds / 60:.1f} minutes, {watch.steps[-1] / seconds:,.0f} steps/s")
    means, peaks = [mean for _, mean, _ in tenths(watch)], [peak for _, _, peak in tenths(watch)]
    drift = max(abs(mean / means[1] - 1) for mean in means[1:])
    growth = peaks[-1] / peaks[0] - 1
    print(f"after the first tenth: mean memory changed by {drift:.2%}, its peak grew by {growth:.2%}")
    print(f"allowed: {ALLOWED:.0%}")
    sys.exit(0 if max(drift, growth) <= ALLOWED else 1)


if __name__ == "__main__":
    main()
