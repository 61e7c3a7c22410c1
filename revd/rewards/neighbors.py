"""The base class of rewards on distances to neighbours inside a segment (REVD, RE3, RISE)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import torch

from revd.rewards.config import NeighborConfig, RewardConfig
from revd.rewards.distinct_segments import merge_duplicates
from revd.rewards.embedding import EmbeddingReward
from revd.rewards.metrics import Mean, total
from revd.rewards.segment_memory import EpisodeMemory, RolloutMemory, SegmentMemory

if TYPE_CHECKING:
    from torch import Tensor

    from revd.rewards.segments import Segments
    from revd.rollout import Rollout
    from revd.spaces import Space


class NeighborReward(EmbeddingReward):
    """A reward on the k-NN distances between the states of segments."""

    config_type: ClassVar[type[RewardConfig]] = NeighborConfig
    config: NeighborConfig
    uses_successors = False
    #: Whether a segment is compared with the one before it.
    uses_previous: ClassVar[bool]

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        self.memory = self._make_memory()

    def check_rollout_length(self, n_steps: int) -> None:
        """Raise a ValueError if rollouts of `n_steps` states hold fewer than k others for each."""
        k = self.config.k
        if self.config.boundary == "rollout" and k > n_steps - 1:
            fewer = f"k <= {n_steps - 1}, " if n_steps > 1 else ""
            raise ValueError(
                f"k = {k} neighbours cannot be found in rollouts of n_steps = {n_steps}: use {fewer}"
                f"n_steps >= {k + 1}, or boundary='episode'"
            )

    def end_episodes(self) -> None:
        """End the running episodes in the memory."""
        self.memory.end_episodes()

    def states_of(self, segments: Segments) -> Segments:
        """The states among which neighbours are sought: all, or with `merge_duplicates` the distinct ones."""
        return merge_duplicates(segments, k=self.config.k) if self.config.merge_duplicates else segments

    def distances_within_segments(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """mu_k of every step, 0 without enough neighbours, and the number of copies of its state, (n_steps, n_envs).

        Records the metrics `distance` and `unpaid`.
        """
        mu_k = torch.full((rollout.n_steps, rollout.n_envs), torch.inf, device=self.device)
        copies = torch.ones_like(mu_k)
        for segments in self.memory.segments(self.embed(rollout, rollout.observations), rollout):
            states = self.states_of(segments)
            segments.put(mu_k, states.per_step(states.own_distances(self.config.k)[..., -1]))
            if states.copies is not None:
                segments.put(copies, states.copies)
        found = mu_k < torch.inf
        self.set_paid(found)
        distance = torch.where(found, mu_k, 0.0)
        paid = total(found)
        # Padded steps are never paid, so n_valid - paid counts valid steps only.
        self.record(
            distance=Mean(total(distance), paid.clamp(min=1)), unpaid=Mean(rollout.n_valid - paid, rollout.n_valid)
        )
        return distance, copies

    def _make_memory(self) -> SegmentMemory:
        config, size = self.config, self.encoder.embedding_size
        if config.boundary == "rollout":
            return RolloutMemory(self.n_envs, size, k=config.k, keep_previous=self.uses_previous)
        return EpisodeMemory(
            self.n_envs, size, k=config.k, keep_previous=self.uses_previous, capacity=config.memory_size
        )
