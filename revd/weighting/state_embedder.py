"""The embeddings of a rollout's states that the bonus's critic reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from revd.encoders import Encoder, make_encoder
from revd.rewards.embedding import check_magnitude

if TYPE_CHECKING:
    from revd.rewards import IntrinsicReward
    from revd.rollout import Observations, Rollout

#: Size of the embeddings for rewards that have no encoder.
EMBEDDING_SIZE = 64


class StateEmbedder(nn.Module):
    """Embeds the states of a rollout with the reward's `Encoder`, or with a frozen one if the reward has none.

    Args:
        reward: The reward whose bonus is predicted.
    """

    def __init__(self, reward: IntrinsicReward) -> None:
        super().__init__()
        self.own = None
        # A reward of a user may have something else under this name.
        if not isinstance(getattr(reward, "encoder", None), Encoder):
            self.own = make_encoder(reward.observation_space, embedding_size=EMBEDDING_SIZE, seed=reward.config.seed)

    def embedding_size(self, reward: IntrinsicReward) -> int:
        """The size d of the embeddings."""
        return self._encoder(reward).embedding_size

    @torch.no_grad()
    def embed(self, reward: IntrinsicReward, rollout: Rollout, last_observations: Observations) -> Tensor | None:
        """Embeddings of all states and of those after the last step, (n_steps + 1, n_envs, d).

        Padded rows are 0, and the state after a column's last step follows that step. Embeddings that the reward has
        just computed are used again. None while the encoder gathers statistics.

        Args:
            reward: The reward, after `compute` and before `update`.
            rollout: The rollout.
            last_observations: The environments' current observations, `(n_envs, *obs_shape)`.
        """
        encoder = self._encoder(reward)
        if not encoder.ready:
            return None
        embeddings = reward.latest_embeddings if self.own is None else None
        if embeddings is None:
            (embeddings,) = rollout.evaluate(lambda states: encoder(states).float(), "observations")
        last = encoder(last_observations).float()
        joined = torch.cat([embeddings, last[None]])
        if rollout.lengths is not None:
            columns = torch.arange(rollout.n_envs, device="cpu")
            joined[-1] = 0
            joined[rollout.lengths, columns] = last
        check_magnitude(joined)
        return joined

    def _encoder(self, reward: IntrinsicReward) -> Encoder:
        return cast("Encoder", reward.encoder) if self.own is None else self.own
