"""Small deterministic environments whose observations count themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

Array = np.ndarray[Any, Any]

#: One observation to the next, for real-valued observations.
TICK = 0.125


class CountingEnv(gym.Env[Any, Any]):
    """Shows the number of observations it has made so far, those of resets included.

    The successor of observation n is therefore always n + 1, at the end of an episode too: there the terminal
    observation is n + 1 and the one after the reset n + 2. Actions are counted and otherwise ignored.

    Args:
        observation_space: How the number is shown, see `show`.
        action_space: Any.
        lengths: Steps of the episodes, in turn, over and over.
        truncate: Episodes end by time limit rather than by termination.
        reward: The reward of the step that leads to observation n.
        start: The first number.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any] | None = None,
        action_space: spaces.Space[Any] | None = None,
        *,
        lengths: Sequence[int] = (4,),
        truncate: bool = False,
        reward: Callable[[int], float] = lambda number: 2.0 if number % 5 == 0 else 1.0,
        start: int = 0,
    ) -> None:
        self.observation_space = observation_space or spaces.Box(-np.inf, np.inf, (2,))
        self.action_space = action_space or spaces.Discrete(3)
        self.number = start - 1
        self.steps_taken = 0
        self._lengths = cycle(lengths)
        self._left = 0
        self._truncate = truncate
        self._reward = reward

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._left = next(self._lengths)
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps_taken += 1
        self._left -= 1
        ended = self._left == 0
        observation = self._observe()
        return observation, self._reward(self.number), ended and not self._truncate, ended and self._truncate, {}

    def action_masks(self) -> Array:
        """For MaskablePPO: the last of the discrete actions is never allowed."""
        assert isinstance(self.action_space, spaces.Discrete)
        return np.arange(self.action_space.n) < self.action_space.n - 1

    def _observe(self) -> Any:
        self.number += 1
        return show(self.observation_space, self.number)


def show(space: spaces.Space[Any], number: int) -> Any:
    """The element of `space` for a number: neighbouring numbers give different elements."""
    if isinstance(space, spaces.Dict):
        return {key: show(part, number + 3 * index) for index, (key, part) in enumerate(space.spaces.items())}
    if isinstance(space, spaces.Discrete):
        return np.int64(number % space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return (number % space.nvec).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        bits = np.arange(np.prod(space.shape))
        return ((number >> bits) & 1).astype(space.dtype).reshape(space.shape)
    if np.issubdtype(space.dtype, np.unsignedinteger):
        return np.full(space.shape, number % 256, dtype=space.dtype)
    return np.full(space.shape, TICK * number, dtype=space.dtype)


def counting_envs(n_envs: int = 2, *, lengths: Sequence[Sequence[int]] = ((4,), (3,)), **arguments: Any) -> DummyVecEnv:
    """`n_envs` counting environments whose episodes and first numbers differ."""

    def factory(index: int) -> Callable[[], CountingEnv]:
        return lambda: CountingEnv(lengths=lengths[index % len(lengths)], start=100 * index, **arguments)

    return DummyVecEnv([factory(index) for index in range(n_envs)])
