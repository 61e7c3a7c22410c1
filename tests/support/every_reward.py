"""Every reward with parameters by which it pays within a few steps, alone and in a mixture, and a task for them."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv

from revd import IntrinsicReward, Rollout, make_reward
from revd.rewards import REWARDS
from tests.support.rollouts import BOX, DISCRETE
from tests.weighting.naive import Array, recent_moments

#: By name. Rewards that whiten observations would pay nothing at first, counts the same for nearly all states.
PARAMETERS: dict[str, dict[str, Any]] = {
    **{name: {} for name in REWARDS},
    **{name: {"warmup": 8} for name in ("rnd", "noveld", "drnd")},
    "counts": {"hash_bits": 4},
}

#: What is passed on as reward, and its parameters.
ALONE: dict[str, tuple[Any, dict[str, Any]]] = {name: (name, PARAMETERS[name]) for name in REWARDS}
_PAIRS = (*zip(list(REWARDS)[::2], list(REWARDS)[1::2], strict=False), ("noise", "revd"))
#: Every reward beside another one.
MIXED: dict[str, tuple[Any, dict[str, Any]]] = {
    "+".join(pair): (list(pair), {"weights": [1.0, 0.25], **{name: PARAMETERS[name] for name in pair}})
    for pair in _PAIRS
}
EVERY = {**ALONE, **MIXED}


class WanderingEnv(gym.Env[Any, Any]):
    """A random walk, whatever the actions are; the steps it has taken are in `log`.

    An entry of the log is (observation, action, next observation, whether the episode ended). Episodes of five steps
    run out of time, those of three in between terminate.
    """

    observation_space, action_space = BOX, DISCRETE

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.log: list[tuple[Any, Any, Any, bool]] = []
        self._lengths = cycle((5, 3))
        self._steps = self._length = 0
        self._observation = np.zeros(3, np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._steps, self._length = 0, next(self._lengths)
        self._observation = self._next(np.zeros(3))
        return self._observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        before, self._observation = self._observation, self._next(self._observation)
        ended = self._steps == self._length
        self.log.append((before, action, self._observation, ended))
        time_out = ended and self._length == 5
        drawn = float(self.rng.normal())
        # Most steps pay nothing, so that the bonus acts.
        return self._observation, drawn if drawn > 0.8 else 0.0, ended and not time_out, time_out, {}

    def _next(self, before: Any) -> Any:
        return (before + self.rng.normal(size=3)).astype(np.float32)


def wandering_envs(n_envs: int = 2) -> DummyVecEnv:
    return DummyVecEnv([lambda seed=seed: WanderingEnv(seed) for seed in range(n_envs)])  # type: ignore[misc]


def logged(env: Any, begin: int, end: int) -> Rollout:
    """The steps from `begin` to `end`, by the environments' own logs."""
    columns = [[entry[part] for entry in each.log[begin:end]] for part in range(4) for each in env.envs]
    parts = [np.stack(columns[part : part + env.num_envs], axis=1) for part in range(0, len(columns), env.num_envs)]
    observations, actions, following, dones = parts
    return Rollout(observations=observations, actions=actions, next_observations=following, dones=dones)


class NaivePayer:
    """What a reward pays for rollouts; a mixture's members one by one, standardised and summed in float64."""

    def __init__(self, reward: Any, parameters: dict[str, Any], *, n_envs: int = 2, seed: int) -> None:
        names = [reward] if isinstance(reward, str) else reward
        self.members: list[IntrinsicReward] = [
            make_reward(name, BOX, DISCRETE, n_envs=n_envs, seed=seed, **PARAMETERS[name]) for name in names
        ]
        self.weights = parameters.get("weights")
        self.seen: list[list[Array]] = [[] for _ in names]

    def pay(self, rollout: Rollout) -> tuple[Array, Array]:
        """The bonus, and which steps could be paid."""
        bonuses = [member.compute(rollout).double().numpy() for member in self.members]
        paid = [member.latest_paid.numpy() for member in self.members]  # type: ignore[union-attr]
        for member in self.members:
            member.update(rollout)
        if self.weights is None:
            return bonuses[0], paid[0]
        total = np.zeros(bonuses[0].shape)
        for bonus, payable, seen, weight in zip(bonuses, paid, self.seen, self.weights, strict=True):
            if payable.any():
                seen.append(bonus[payable])
            mean, deviation = recent_moments(seen)
            total += weight * payable * (bonus - mean) / deviation if deviation > 0 else 0.0
        return total, np.ones(total.shape, dtype=bool)
