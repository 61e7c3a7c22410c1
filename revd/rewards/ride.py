"""RIDE: Rewarding Impact-Driven Exploration (Raileanu & Rocktäschel, 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from revd.functional import pseudo_counts
from revd.rewards.config import RewardConfig
from revd.rewards.episodic import EpisodicConfig, EpisodicReward
from revd.rewards.metrics import mean_of_steps

if TYPE_CHECKING:
    from revd.rollout import Rollout


@dataclass(frozen=True, kw_only=True)
class RIDEConfig(EpisodicConfig):
    """Parameters of RIDE.

    Attributes:
        inverse: Train phi by an inverse and a forward model. False keeps phi random and trains only the forward model.
    """

    update_fraction: float = 0.25
    inverse: bool = True


class RIDE(EpisodicReward):
    """Pays each action for how much it changes the state, discounted by visits within the episode.

    ::

        r^_t = || phi(s_{t+1}) - phi(s_t) ||_2 / sqrt(N_ep(s_{t+1}))
        sqrt(N_ep(s)) = sqrt( 1 + sum_i K(phi(s), phi(s_i)) ) + c,      paid 0 above s_max

    K is Never Give Up's kernel (`revd.functional.pseudo_counts`) over the k nearest states s_i of the same true episode
    before s_{t+1}, those of earlier rollouts included, as they were embedded when they were visited. Squared distances
    are divided by their moving average over rollouts.

    phi is trained by an inverse model p(a | phi, phi') and a forward model g(phi, a), whose loss is
    || g(phi(s_t), a_t) - phi(s_{t+1}) ||_2. The forward loss alone would make phi a constant, so phi stays random
    without the inverse model.

    Metrics: `impact` (mean ||phi' - phi||), `count` (mean N_ep), `bonus_mean`; losses: `forward_loss`, `inverse_loss`.
    """

    advice = "Procedural levels, where actions that change something matter."
    config_type: ClassVar[type[RewardConfig]] = RIDEConfig
    config: RIDEConfig
    uses_forward_model = True

    @property
    def trains_encoder(self) -> bool:
        """Phi is trained together with the inverse model."""
        return self.config.inverse

    def bonus(self, rollout: Rollout) -> Tensor:
        """|| phi(s_{t+1}) - phi(s_t) || / sqrt(N_ep(s_{t+1})), 0 where the root exceeds `s_max`."""
        phi, phi_next = self.embed_transitions(rollout)
        impact = (phi_next - phi).norm(dim=-1)
        # s_{t+1} sees the states up to s_t.
        distances = self.earlier_distances(phi, phi_next, rollout, seen=1)
        counts = pseudo_counts(distances, self.mean_square, **self.kernel)
        root = counts.sqrt() + self.config.c
        self.record(impact=mean_of_steps(impact, rollout), count=mean_of_steps(counts, rollout))
        return torch.where(root > self.config.s_max, 0.0, impact / root)
