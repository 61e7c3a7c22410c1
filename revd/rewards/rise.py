"""RISE: Rényi State Entropy Maximization (Yuan et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from revd.rewards.config import NeighborConfig, RewardConfig, require
from revd.rewards.metrics import Mean, total
from revd.rewards.neighbors import NeighborReward

if TYPE_CHECKING:
    from revd.rollout import Rollout


@dataclass(frozen=True, kw_only=True)
class RISEConfig(NeighborConfig):
    """Parameters of RISE.

    Attributes:
        alpha: Order of the Rényi entropy, in (0, 1).
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.alpha < 1, "alpha", self.alpha, "inside (0, 1)")


class RISE(NeighborReward):
    """Pays each state for being far from its neighbours in its own segment: an estimate of the Rényi entropy.

    With E the embeddings of an environment's current segment::

        r^_t = mu_k(e_t, E)^(1 - alpha)

    mu_k is the distance to the k-th nearest *other* state of E. With boundary="episode" a state with fewer than k
    other states is paid 0.

    Metrics: `distance` (mean mu_k), `unpaid` (share of the rollout's steps without enough neighbours), `bonus_mean`.
    """

    config_type: ClassVar[type[RewardConfig]] = RISEConfig
    config: RISEConfig
    uses_previous = False

    def bonus(self, rollout: Rollout) -> Tensor:
        """Pay mu_k^(1 - alpha) for the states of every segment."""
        mu_k = torch.full((rollout.n_steps, rollout.n_envs), torch.inf, device=self.device)
        for segments in self.memory.segments(self.embed(rollout, rollout.observations), rollout):
            segments.put(mu_k, segments.own_distances(self.config.k)[..., -1])
        found = mu_k < torch.inf
        distance = torch.where(found, mu_k, 0.0)
        paid = total(found)
        self.record(
            distance=Mean(total(distance), paid.clamp(min=1)), unpaid=Mean(rollout.n_valid - paid, rollout.n_valid)
        )
        # 1 - alpha > 0, so steps without enough neighbours stay at 0.
        return distance ** (1 - self.config.alpha)
