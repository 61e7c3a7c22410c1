"""The base class of rewards by a predictor's error against a random network, as in RND."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from revd.encoders import SpaceEncoder, make_encoder
from revd.rewards.config import RewardConfig
from revd.rewards.embedding import check_magnitude
from revd.rewards.trained import TrainedConfig, TrainedReward

if TYPE_CHECKING:
    from revd.encoders import Encoder
    from revd.rewards.trained import Minibatch
    from revd.rollout import Observations, Rollout
    from revd.spaces import Space
    from revd.states import Field

#: Hidden layers that a predictor has more than its target.
EXTRA_LAYERS = 2


@dataclass(frozen=True, kw_only=True)
class DistillationConfig(TrainedConfig):
    """Parameters of every reward by the error of a predictor.

    Attributes:
        normalize_observations: Whiten observations by running statistics of all so far, clipped to +-5.
        warmup: Observations that begin these statistics, during which the bonus is 0.
    """

    normalize_observations: bool = True
    learning_rate: float = 1e-4
    update_fraction: float = 0.25


class DistillationReward(TrainedReward):
    """A reward by how badly a predictor f^ imitates a frozen random network f, here `encoder`, on whitened states.

    A subclass implements `bonus`, mostly by `differences`. The predictor sees observations whitened by the encoder's
    running statistics, so that both look at the same numbers. `losses` is the mean squared error on successors.

    Losses: `predictor_loss`.
    """

    config_type: ClassVar[type[RewardConfig]] = DistillationConfig
    config: DistillationConfig
    running_statistics = True

    def build(self, generator: torch.Generator) -> None:
        """Make the predictor."""
        self.predictor = make_predictor(self.observation_space, self.config.embedding_size, generator)

    def losses(self, batch: Minibatch) -> dict[str, Tensor]:
        """The mean squared error on the successors, per transition and per number of the embedding."""
        (errors,) = batch.evaluate(self._errors, "successors")
        return {"predictor_loss": errors.mean()}

    def _errors(self, observations: Observations) -> Tensor:
        """The mean squared error on observations, (n,)."""
        with torch.no_grad():
            target = self.encoder(observations)
        errors: Tensor = (self.predict(observations) - target).square().mean(dim=-1)
        return errors

    def predict(self, observations: Observations) -> Tensor:
        """f^(s) of observations, `(n, *obs_shape)` -> (n, d)."""
        predicted: Tensor = self.predictor(observations, normalized_by=self.encoder)
        return predicted

    def differences(self, rollout: Rollout, *fields: Field) -> list[Tensor]:
        """f^(s) - f(s) on the rollout's observations, successors or both, (n_steps, n_envs, d); 0 in padded steps."""
        # Of both, whatever is asked for: the critic of the bonus reads those of the observations.
        before, after = self.embed_transitions(rollout)
        predicted = rollout.evaluate(lambda observations: self.predict(observations).float(), *fields)
        for each in predicted:
            check_magnitude(each)
        targets = (before if field == "observations" else after for field in fields)
        return [guess - target for guess, target in zip(predicted, targets, strict=True)]


def make_predictor(space: Space, embedding_size: int, generator: torch.Generator) -> Encoder:
    """A trainable encoder with `EXTRA_LAYERS` more hidden layers than `make_encoder`'s, and other weights.

    It has no statistics of its own: give its target as `normalized_by`.
    """
    # A seed drawn from the generator: with the target's own, the first layers would be equal to the target's.
    seed = int(torch.randint(2**62, (), generator=generator, device="cpu"))
    predictor = make_encoder(space, embedding_size=embedding_size, seed=seed, trainable=True)
    for module in predictor.modules():
        if isinstance(module, SpaceEncoder):
            module.network = _deepened(module.network, generator)
    return predictor


def _deepened(network: nn.Sequential, generator: torch.Generator) -> nn.Sequential:
    *layers, last = network
    assert isinstance(last, nn.Linear)
    for _ in range(EXTRA_LAYERS):
        hidden = skip_init(nn.Linear, last.in_features, last.in_features)
        nn.init.orthogonal_(hidden.weight, gain=math.sqrt(2), generator=generator)
        nn.init.zeros_(hidden.bias)
        layers += [hidden, nn.ReLU()]
    return nn.Sequential(*layers, last).eval()
