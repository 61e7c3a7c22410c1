"""The automatic weight from its definition: float64, loops over steps, nothing kept but lists."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
GAMMA, GAE_LAMBDA, MEMORY = 0.99, 0.95, 0.9


def recent_moments(rollouts: list[Array]) -> tuple[float, float]:
    """Mean and deviation of values in which each rollout counts 0.9 times as much as the next."""
    counts = [MEMORY ** (len(rollouts) - 1 - index) for index in range(len(rollouts))]
    if not counts:
        return 0.0, 0.0
    values = [np.asarray(rollout, dtype=np.float64) for rollout in rollouts]
    mean = sum(count * rollout.mean() for count, rollout in zip(counts, values, strict=True)) / sum(counts)
    square = sum(count * ((rollout - mean) ** 2).mean() for count, rollout in zip(counts, values, strict=True))
    return float(mean), float(np.sqrt(square / sum(counts)))


def bonus_advantages(bonus: Array, values: Array, lengths: Any = None) -> Array:
    """A_t = sum_j (gamma lambda)^j delta_{t+j}, over the ends of episodes, up to the last step.

    Args:
        bonus: Standardised, (n_steps, n_envs).
        values: V of all states and of those after the last step, (n_steps + 1, n_envs).
        lengths: Steps of each column; all by default.
    """
    n_steps, n_envs = bonus.shape
    advantages = np.zeros((n_steps, n_envs))
    for env in range(n_envs):
        last = n_steps if lengths is None else int(lengths[env])
        for step in range(last):
            for later in range(step, last):
                delta = bonus[later, env] + GAMMA * values[later + 1, env] - values[later, env]
                advantages[step, env] += (GAMMA * GAE_LAMBDA) ** (later - step) * delta
    return advantages


class NaiveWeight:
    """All rollouts so far, from which the next one's weights are computed anew."""

    def __init__(self) -> None:
        self.bonuses: list[Array] = []
        self.task: list[Array] = []
        self.own: list[Array] = []

    def weigh(
        self,
        bonus: Array,
        values: Array | None,
        task: Array,
        *,
        strength: Array,
        extrinsic_weight: float = 1.0,
        lengths: Any = None,
        paid: Array | None = None,
    ) -> Array:
        """What the policy learns from. `values` are those of the critic; None if the bonus is not judged."""
        n_steps, n_envs = bonus.shape
        valid = np.arange(n_steps)[:, None] < (np.full(n_envs, n_steps) if lengths is None else np.asarray(lengths))
        self.task.append(task[valid])
        own = np.zeros((n_steps, n_envs))
        paid = valid if paid is None else valid & paid
        if paid.any():
            self.bonuses.append(bonus[paid])
        if values is not None and self.bonuses:
            mean, deviation = recent_moments(self.bonuses)
            standardized = paid * (bonus - mean) / deviation if deviation > 0 else 0 * bonus
            own = bonus_advantages(standardized, values, lengths)
            self.own.append(own[valid])
        reference = strength * recent_moments(self.task)[1] if extrinsic_weight > 0 else 1.0
        deviation = recent_moments(self.own)[1]
        return extrinsic_weight * task + (reference / deviation * own if deviation > 0 else 0.0)
