"""Random numbers as a bonus: a control that any other reward should beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from revd.rewards.base import IntrinsicReward

if TYPE_CHECKING:
    from revd.rollout import Rollout
    from revd.spaces import Space


class Noise(IntrinsicReward):
    """Pays every step a random number, whatever the state.

    ::

        r^_t ~ U[0, 1)

    What a bonus gains over this one comes from the states that it pays, not from the noise that it adds.

    Metrics: `bonus_mean`.
    """

    advice = "A control: a bonus that helps must beat random numbers."
    uses_successors = False

    drawn: Tensor

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        self.register_buffer("drawn", torch.zeros((), dtype=torch.int64))

    def bonus(self, rollout: Rollout) -> Tensor:
        """Random numbers that depend only on the seed and how often some were drawn, so a resumed run repeats them."""
        generator = torch.Generator().manual_seed(self.config.seed + int(self.drawn))
        self.drawn += 1
        return torch.rand(rollout.n_steps, rollout.n_envs, generator=generator).to(self.device)
