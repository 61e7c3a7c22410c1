"""The paper's sparse setting: the task's reward is hidden from the agent most of the time."""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.core import ActType, ObsType

from revd.envs.tasks import SPARSITY

TASK_REWARD = "task_reward"

# Keeps the draws apart from those of an environment that was seeded with the same number.
_STREAM = 0x5BA45E


class SparseReward(gymnasium.Wrapper[ObsType, ActType, ObsType, ActType]):
    """
    Zeroes each step's reward with probability `probability`; `info["task_reward"]` keeps the untouched one.

    What is recorded below it (a Monitor) still sees the task's own return. `reset(seed=…)` seeds the draws too.
    """

    def __init__(self, env: gymnasium.Env[ObsType, ActType], probability: float = SPARSITY) -> None:
        super().__init__(env)
        check_probability(probability)
        self.probability = probability
        self._generator = sparse_generator(None)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset; a seed starts the draws anew, without one they go on."""
        if seed is not None:
            self._generator = sparse_generator(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and perhaps hide the reward."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        shown = 0.0 if self._generator.random() < self.probability else reward
        return observation, shown, terminated, truncated, {**info, TASK_REWARD: float(reward)}


def check_probability(probability: float) -> None:
    """Raise a ValueError unless it is one."""
    if not 0 <= probability <= 1:
        raise ValueError(f"sparse is the probability that a reward is zeroed and must lie in [0, 1], got {probability}")


def sparse_generator(seed: int | None) -> np.random.Generator:
    """The draws that go with a seed; None gives fresh ones."""
    return np.random.default_rng(None if seed is None else (seed, _STREAM))
