"""Scaling a bonus by the deviation of its discounted sums, as RND does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from revd.functional.discounted import discounted_sums
from revd.moments import RunningMoments

if TYPE_CHECKING:
    from revd.rollout import Rollout


class ReturnScale(nn.Module):
    """Divides bonuses by the standard deviation of their discounted sums so far, without subtracting a mean.

    R_t = gamma R_{t-1} + r_t runs along time in each environment, over ends of episodes and of rollouts: a bonus for
    exploring does not end with the episode.

    Args:
        n_envs: Parallel environments.
        gamma: Discount of the sums.
    """

    sums: Tensor

    def __init__(self, n_envs: int, gamma: float) -> None:
        super().__init__()
        self.gamma = gamma
        self.register_buffer("sums", torch.zeros(n_envs, dtype=torch.float64))
        self.moments = RunningMoments()

    def forward(self, bonus: Tensor, rollout: Rollout) -> Tensor:
        """Add the rollout's bonuses, (n_steps, n_envs), to the sums and divide them by the deviation."""
        valid = rollout.valid_on(bonus.device)
        sums = discounted_sums(torch.where(valid, bonus, 0.0).double(), self.sums, gamma=self.gamma)
        self.moments.update(sums[valid])
        lengths = valid.sum(dim=0)
        last = sums.gather(0, (lengths - 1).clamp(min=0)[None])[0]
        self.sums.copy_(torch.where(lengths > 0, last, self.sums))
        std = self.moments.std
        # A constant sum varies by rounding only, and float32 rounds very small deviations to 0: neither is a divisor.
        varies = (std > 1e-6 * self.moments.mean.abs()) & (std > torch.finfo(torch.float32).tiny)
        return bonus / torch.where(varies, std, 1.0).to(bonus.dtype)
