"""The base class of rewards that are computed on embeddings of states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor

from revd.encoders import make_encoder
from revd.rewards.base import IntrinsicReward
from revd.rewards.config import EmbeddingConfig, RewardConfig

if TYPE_CHECKING:
    from revd.rollout import Observations, Rollout
    from revd.spaces import Space
    from revd.states import Field

#: The largest embedding whose squared distances fit float32.
LARGEST_EMBEDDING = 1e15


class EmbeddingReward(IntrinsicReward):
    """An intrinsic reward computed on the embeddings of states."""

    config_type: ClassVar[type[RewardConfig]] = EmbeddingConfig
    config: EmbeddingConfig
    #: Whether the statistics of `normalize_observations` follow all observations, instead of those of the warm-up.
    running_statistics: ClassVar[bool] = False

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        self.encoder = make_encoder(
            observation_space,
            embedding_size=self.config.embedding_size,
            seed=self.config.seed,
            init=self.config.init,
            normalize=self.config.normalize_observations,
            warmup=self.config.warmup,
            running=self.running_statistics,
            trainable=self.trains_encoder,
        )

    @property
    def trains_encoder(self) -> bool:
        """Whether the method trains the encoder; frozen otherwise."""
        return False

    def warmed_up(self, rollout: Rollout) -> bool:
        """Whether the warm-up is over; the rollout's observations are added to statistics that are not frozen."""
        if self.running_statistics or not self.encoder.ready:
            self.encoder.warm_up(*rollout.states.counted())
        return self.encoder.ready

    def embed(self, rollout: Rollout, observations: Observations) -> Tensor:
        """Embeddings of the rollout's observations or successors, (n_steps, n_envs, d); zeros in padded steps."""
        if observations is rollout.observations:
            return self._embed(rollout, "observations")[0]
        if observations is rollout.next_observations:
            return self._embed(rollout, "successors")[0]
        embeddings = rollout.unflatten(self.encoder(rollout.steps(observations)).float())
        check_magnitude(embeddings)
        return embeddings

    def embed_transitions(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """Embeddings of the rollout's observations and of its successors, as `embed` gives them, in less time."""
        phi, phi_next = self._embed(rollout, "observations", "successors")
        return phi, phi_next

    def _embed(self, rollout: Rollout, *fields: Field) -> list[Tensor]:
        # In float32 also under autocast: they are stored, and distances between them must be exact.
        embedded = rollout.evaluate(lambda observations: self.encoder(observations).float(), *fields)
        for field, embeddings in zip(fields, embedded, strict=True):
            check_magnitude(embeddings)
            if field == "observations":
                self._embeddings = embeddings
        return embedded


def check_magnitude(embeddings: Tensor) -> None:
    """Raise a ValueError if a number of embeddings (n_steps, n_envs, d) is not finite, or its square too large."""
    # Checked before the memory changes: later the distances would be infinite, as if neighbours were missing.
    largest = embeddings.abs().amax(dim=-1)
    if not largest.amax() <= LARGEST_EMBEDDING:
        step, env = (~(largest <= LARGEST_EMBEDDING)).nonzero()[0].tolist()
        raise ValueError(
            f"the embedding at step {step} of environment {env} is too large for distances in float32: "
            "normalise the observations (VecNormalize, or normalize_observations=True)"
        )
