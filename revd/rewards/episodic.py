"""The base class of rewards that estimate visits within an episode by the kernel of Never Give Up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from revd.functional import visible_distances
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
from revd.rewards.segment_memory import EpisodeMemory
from revd.rewards.trained import TrainedConfig

if TYPE_CHECKING:
    from revd.rollout import Rollout
    from revd.spaces import Space


@dataclass(frozen=True, kw_only=True)
class EpisodicConfig(TrainedConfig):
    """Parameters of every reward with Never Give Up's kernel.

    Attributes:
        k: Nearest earlier states that the kernel sums over.
        memory_size: States of the running episode kept from rollout to rollout, per environment.
        kernel_eps: eps of the kernel.
        cluster_distance: xi, the relative squared distance below which two states count as the same.
        c: Added to the square root of the sum.
        s_max: Square roots above this are paid 0.
        momentum: Momentum of the moving average of the squared distances, per rollout.
    """

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


class EpisodicReward(DynamicsReward):
    """A reward on the distances of a state to the nearest earlier ones of its true episode, in a learnt embedding.

    States of earlier rollouts are included, as they were embedded when they were visited.
    """

    config_type: ClassVar[type[RewardConfig]] = EpisodicConfig
    config: EpisodicConfig
    mean_square: Tensor

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        size, capacity = self.encoder.embedding_size, self.config.memory_size
        self.memory = EpisodeMemory(n_envs, size, k=1, keep_previous=False, capacity=capacity)
        self.register_buffer("mean_square", torch.zeros(()))

    @property
    def kernel(self) -> dict[str, float]:
        """The constants of the kernel, for `kernel_sums` and `pseudo_counts`."""
        return {"eps": self.config.kernel_eps, "cluster_distance": self.config.cluster_distance}

    def end_episodes(self) -> None:
        """Forget the states of all running episodes."""
        self.memory.end_episodes()

    def earlier_distances(self, phi: Tensor, queries: Tensor, rollout: Rollout, *, seen: int) -> Tensor:
        """Distances of queries to their k nearest earlier states; advances the memory and the average of squares.

        Args:
            phi: Embeddings of the rollout's states, (n_steps, n_envs, d).
            queries: What is compared with them, (n_steps, n_envs, d).
            rollout: The rollout.
            seen: 0 if the query of step t sees the states before s_t, 1 if it sees s_t as well.

        Returns:
            (n_steps, n_envs, k) ascending; missing neighbours are inf.
        """
        distances = phi.new_full((*phi.shape[:2], self.config.k), torch.inf)
        for segments in self.memory.segments(phi, rollout):
            visible = (segments.carried[:, None] + segments.offsets + seen) * segments.is_new
            found = visible_distances(segments.take(queries), segments.current, k=self.config.k, visible=visible)
            segments.put(distances, found)
        self._update_mean_square(distances)
        return distances

    def _update_mean_square(self, distances: Tensor) -> None:
        """Move the average towards the mean square of the distances, if there are any; missing distances are inf."""
        found = distances < torch.inf
        # In float64: sums of large squares overflow float32, and then all states would count as duplicates.
        mean = torch.where(found, distances.double(), 0.0).square().sum() / found.sum().clamp(min=1)
        updated = self.mean_square.lerp(mean.float(), 1 - self.config.momentum)
        updated = torch.where(self.mean_square > 0, updated, mean.float())
        self.mean_square.copy_(torch.where(found.any(), updated, self.mean_square))
