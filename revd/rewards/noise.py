"""Random numbers as a bonus: a control that any other reward should beat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from revd.rewards.base import IntrinsicReward

if TYPE_CHECKING:
    from revd.rollout import Rollout


class Noise(IntrinsicReward):
    """Pays every step a random number, whatever the state.

    ::

        r^_t ~ U[0, 1)

    What a bonus gains over this one comes from the states that it pays, not from the noise that it adds.

    Metrics: `bonus_mean`.
    """

    uses_successors = False

    def bonus(self, rollout: Rollout) -> Tensor:
        """Random numbers that depend only on the seed and the number of calls, so that a resumed run repeats them."""
        generator = torch.Generator().manual_seed(self.config.seed + int(self.calls))
        return torch.rand(rollout.n_steps, rollout.n_envs, generator=generator).to(self.device)
