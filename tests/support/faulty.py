"""Environments that break at a given step, in a given way."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

BREAKS = (
    "nan", "inf", "shape", "stretched", "reward-nan", "reward-shape", "reward-none", "reward-text", "reward-complex",
    "raises", "exits", "last-nan", "reset-raises",
)  # fmt: skip


class FaultyEnv(gymnasium.Env[Any, Any]):
    """Episodes of ten steps; at step `at` of its life, counted from 1, it breaks as `how` says.

    Args:
        how: One of `BREAKS`, `dies` for a process that ends, or `fine`.
        at: The step.
        keyed: Observations are a dict.
    """

    def __init__(self, how: str = "fine", at: int = 15, *, keyed: bool = False) -> None:
        box = spaces.Box(-np.inf, np.inf, (3,))
        self.observation_space = spaces.Dict(box=box, kind=spaces.Discrete(3)) if keyed else box
        self.action_space = spaces.Discrete(2)
        self._how, self._at, self._keyed = how, at, keyed
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if self._how == "reset-raises" and self._steps >= self._at:
            raise RuntimeError("cannot begin again")
        return self._observation(self.np_random.normal(size=3)), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._steps += 1
        values, reward, ended = self.np_random.normal(size=3), 1.0, self._steps % 10 == 0
        if self._steps == self._at:
            match self._how:
                case "nan":
                    values[1] = np.nan
                case "inf":
                    values[2] = -np.inf
                case "shape":
                    values = np.zeros(4)
                case "stretched":
                    values = np.zeros(1)
                case "reward-nan":
                    reward = float("nan")
                case "reward-shape":
                    reward = np.zeros(2)
                case "reward-none":
                    reward = None
                case "reward-text":
                    reward = "x"
                case "reward-complex":
                    reward = np.complex64(1j)
                case "exits":
                    raise SystemExit(7)
                case "raises":
                    raise ZeroDivisionError("out of the blue")
                case "last-nan":
                    values[0], ended = np.nan, True
                case "dies":
                    os._exit(3)
        return self._observation(values), reward, ended, False, {}

    def _observation(self, values: Any) -> Any:
        values = values.astype(np.float32)
        return {"box": values, "kind": 1} if self._keyed else values
