"""The weight of the bonus at every step of a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from revd.arrays import Array
from revd.rewards.config import require_choice, require_fraction, require_number

DecayPer: TypeAlias = Literal["rollout", "step"]


@dataclass(kw_only=True)
class WeightSchedule:
    """lambda_l = weight * (1 - decay)^l, where l = 1, 2, … counts rollouts or environment steps.

    Attributes:
        weight: lambda_0, the initial weight.
        decay: kappa, by which the weight shrinks.
        decay_per: Whether l counts each "rollout" or each "step" of all environments.
        rollouts: Rollouts so far. With `steps`, the state that a checkpoint saves.
        steps: Environment steps so far, of all environments.
    """

    weight: float = 0.1
    decay: float = 1e-5
    decay_per: DecayPer = "rollout"
    rollouts: int = 0
    steps: int = 0

    def __post_init__(self) -> None:
        require_number("weight", self.weight)
        require_decay(self.decay, self.decay_per)

    def next_weights(self, new_steps: Array) -> Array:
        """Count one more rollout and return the weight of each of its time steps, (n_steps, 1).

        Args:
            new_steps: (n_steps,), how many environments made each time step.
        """
        self.rollouts += 1
        steps = self.steps + np.cumsum(new_steps)
        self.steps = int(steps[-1])
        exponents = np.full(len(steps), self.rollouts) if self.decay_per == "rollout" else steps
        weights: Array = self.weight * (1 - self.decay) ** exponents[:, None].astype(np.float64)
        return weights


def require_decay(decay: object, decay_per: object) -> None:
    """Raise a ValueError that names the argument unless both are valid."""
    require_fraction("decay", decay)
    require_choice("decay_per", decay_per, get_args(DecayPer))
