"""What the methods share that look at states through an encoder."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from revd.encoders import make_encoder
from revd.rewards.base import IntrinsicReward
from revd.rewards.config import EmbeddingConfig, RewardConfig
from revd.rollout import map_observations

if TYPE_CHECKING:
    from revd.rollout import Observations, Rollout
    from revd.spaces import Space


class EmbeddingReward(IntrinsicReward):
    """An intrinsic reward computed on the embeddings of states."""

    config_type: ClassVar[type[RewardConfig]] = EmbeddingConfig
    config: EmbeddingConfig

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        self.encoder = make_encoder(
            observation_space,
            embedding_size=self.config.embedding_size,
            seed=self.config.seed,
            normalize=self.config.normalize_observations,
            warmup=self.config.warmup,
            trainable=self.trains_encoder,
        )

    @property
    def trains_encoder(self) -> bool:
        """Whether the method trains the encoder; frozen otherwise."""
        return False

    @abstractmethod
    def embedded_bonus(self, rollout: Rollout) -> Tensor:
        """The bonus, once observations can be embedded."""

    def bonus(self, rollout: Rollout) -> Tensor:
        """`embedded_bonus`, or zeros while the observations' statistics are still being gathered."""
        if not self.encoder.ready:
            valid = rollout.valid
            self.encoder.warm_up(map_observations(lambda values: values[valid.to(values.device)], rollout.observations))
        if not self.encoder.ready:
            return torch.zeros(rollout.n_steps, rollout.n_envs, device=self.device)
        return self.embedded_bonus(rollout)

    def embed(self, observations: Observations) -> Tensor:
        """Embeddings of time-major observations, (n_steps, n_envs, d)."""
        flat = map_observations(lambda values: values.flatten(0, 1), observations)
        embeddings: Tensor = self.encoder(flat)
        return embeddings.reshape(-1, self.n_envs, embeddings.shape[-1])
