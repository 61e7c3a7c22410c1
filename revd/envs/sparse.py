"""The paper's sparse setting: most rewards of the task are hidden from the agent."""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.core import ActType, ObsType

from revd.envs.tasks import SPARSITY

#: Key of the unchanged reward in the info.
TASK_REWARD = "task_reward"

# Separates the draws from those of an environment that has the same seed.
_STREAM = 0x5BA45E


class SparseReward(gymnasium.Wrapper[ObsType, ActType, ObsType, ActType]):
    """Sets each reward to zero with a probability; `info["task_reward"]` keeps the unchanged reward.

    A Monitor below this wrapper records the task's own return. `reset(seed=…)` also seeds the draws.
    """

    def __init__(self, env: gymnasium.Env[ObsType, ActType], probability: float = SPARSITY) -> None:
        super().__init__(env)
        check_probability(probability)
        self.probability = probability
        self._generator = sparse_generator(None)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset; a seed restarts the draws, without one they continue."""
        if seed is not None:
            self._generator = sparse_generator(seed)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: ActType) -> tuple[ObsType, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and hide the reward with the given probability."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        shown = 0.0 if self._generator.random() < self.probability else reward
        return observation, shown, terminated, truncated, {**info, TASK_REWARD: float(reward)}


def check_probability(probability: float) -> None:
    """Raise a ValueError unless the number is a probability."""
    if not 0 <= probability <= 1:
        raise ValueError(f"sparse is the probability that a reward is zeroed and must lie in [0, 1], got {probability}")


def sparse_generator(seed: int | None) -> np.random.Generator:
    """The generator of the draws for a seed; None gives a random one."""
    return np.random.default_rng(None if seed is None else (seed, _STREAM))
