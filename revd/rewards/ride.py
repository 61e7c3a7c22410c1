"""RIDE: Rewarding Impact-Driven Exploration (Raileanu & Rocktäschel, 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from revd.functional import pseudo_counts, visible_distances
from revd.rewards.config import (
    LARGEST,
    LARGEST_COUNT,
    LARGEST_SIZE,
    RewardConfig,
    require,
    require_integer,
    require_positive,
)
from revd.rewards.dynamics import DynamicsReward
from revd.rewards.metrics import mean_of_steps
from revd.rewards.segments import EpisodeMemory
from revd.rewards.trained import TrainedConfig

if TYPE_CHECKING:
    from revd.rollout import Rollout
    from revd.spaces import Space


@dataclass(frozen=True, kw_only=True)
class RIDEConfig(TrainedConfig):
    """Parameters of RIDE.

    Attributes:
        inverse: Train phi by an inverse and a forward model. False keeps phi random and trains only the forward model.
        k: Nearest earlier states that a pseudo-count sums over.
        memory_size: States of the running episode kept from rollout to rollout, per environment.
        kernel_eps: eps of the pseudo-count's kernel.
        cluster_distance: xi, the relative squared distance below which two states count as the same.
        c: Added to the square root of the pseudo-count.
        s_max: Square roots above this are paid 0.
        momentum: Momentum of the moving average of the squared distances, per rollout.
    """

    inverse: bool = True
    k: int = 10
    memory_size: int = 10_000
    kernel_eps: float = 1e-4
    cluster_distance: float = 0.008
    c: float = 0.001
    s_max: float = 8.0
    momentum: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, largest in (("k", LARGEST_SIZE), ("memory_size", LARGEST_COUNT)):
            require_integer(name, getattr(self, name), minimum=1, maximum=largest)
        for name in ("kernel_eps", "s_max"):
            require_positive(name, getattr(self, name))
        for name in ("cluster_distance", "c"):
            value = getattr(self, name)
            require(0 <= value <= LARGEST, name, value, f"a number from 0 to {LARGEST:g}")
        require(0 <= self.momentum < 1, "momentum", self.momentum, "inside [0, 1)")


class RIDE(DynamicsReward):
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

    config_type: ClassVar[type[RewardConfig]] = RIDEConfig
    config: RIDEConfig
    mean_square: Tensor
    uses_forward_model = True

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        size, capacity = self.encoder.embedding_size, self.config.memory_size
        self.memory = EpisodeMemory(n_envs, size, k=1, keep_previous=False, capacity=capacity)
        self.register_buffer("mean_square", torch.zeros(()))

    @property
    def trains_encoder(self) -> bool:
        """Phi is trained together with the inverse model."""
        return self.config.inverse

    def end_episodes(self) -> None:
        """Start the counts of all environments from zero."""
        self.memory.end_episodes()

    def bonus(self, rollout: Rollout) -> Tensor:
        """|| phi(s_{t+1}) - phi(s_t) || / sqrt(N_ep(s_{t+1})), 0 where the root exceeds `s_max`."""
        phi, phi_next = (self.embed(rollout, part) for part in (rollout.observations, rollout.successors))
        impact = (phi_next - phi).norm(dim=-1)
        counts = self._counts(phi, phi_next, rollout)
        root = counts.sqrt() + self.config.c
        self.record(impact=mean_of_steps(impact, rollout), count=mean_of_steps(counts, rollout))
        return torch.where(root > self.config.s_max, 0.0, impact / root)

    def _counts(self, phi: Tensor, phi_next: Tensor, rollout: Rollout) -> Tensor:
        config = self.config
        distances = phi.new_full((*phi.shape[:2], config.k), torch.inf)
        for segments in self.memory.segments(phi, rollout):
            # s_{t+1} sees the states before it: the carried ones, and the new ones up to s_t.
            visible = (segments.carried[:, None] + segments.offsets + 1) * segments.is_new
            found = visible_distances(segments.take(phi_next), segments.current, k=config.k, visible=visible)
            segments.put(distances, found)
        self._update_mean_square(distances)
        return pseudo_counts(
            distances, self.mean_square, eps=config.kernel_eps, cluster_distance=config.cluster_distance
        )

    def _update_mean_square(self, distances: Tensor) -> None:
        """Move the average towards the mean square of the distances; missing distances are inf."""
        found = distances < torch.inf
        # In float64: sums of large squares overflow float32, and then all states would count as duplicates.
        mean = torch.where(found, distances.double(), 0.0).square().sum() / found.sum()
        updated = self.mean_square.lerp(mean.float(), 1 - self.config.momentum)
        self.mean_square.copy_(torch.where(self.mean_square > 0, updated, mean.float()))
