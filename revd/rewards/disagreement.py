"""Disagreement: Self-Supervised Exploration via Disagreement (Pathak et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from revd.encoders import VECTORS_PER_CHUNK
from revd.networks import two_layer_network
from revd.rewards.config import LARGEST_COUNT, RewardConfig, require, require_integer
from revd.rewards.trained import TrainedConfig, TrainedReward

if TYPE_CHECKING:
    from revd.rewards.trained import Minibatch
    from revd.rollout import Rollout

#: Hidden units of each forward model: five have about as many weights as one of RIDE's.
HIDDEN = 64


@dataclass(frozen=True, kw_only=True)
class DisagreementConfig(TrainedConfig):
    """Parameters of Disagreement.

    Attributes:
        n_models: Forward models that are compared.
        model_share: Probability with which a transition trains each model, so that they see different ones.
    """

    update_fraction: float = 0.25
    n_models: int = 5
    model_share: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("n_models", self.n_models, minimum=2, maximum=LARGEST_COUNT)
        require(0 < self.model_share <= 1, "model_share", self.model_share, "inside (0, 1]")


class Disagreement(TrainedReward):
    """Pays for transitions on which several forward models disagree, which they do until they have learnt them.

    ::

        r^_t = 1/d sum_j Var_i [ g_i(phi(s_t), a_t)_j ]

    Models g_1 ... g_N start from different random weights, and each transition trains a model with probability
    `model_share` only. What cannot be predicted at all, such as noise, they learn to answer by the same mean. phi is
    frozen and random.

    Metrics: `bonus_mean`; losses: `model_loss` (mean squared error of the models).
    """

    advice = "Stochastic worlds: outcomes that nothing predicts are hardly paid."
    config_type: ClassVar[type[RewardConfig]] = DisagreementConfig
    config: DisagreementConfig

    def build(self, generator: torch.Generator) -> None:
        """Make the forward models."""
        size = self.encoder.embedding_size
        self.models = Ensemble(self.config.n_models, size + self.actions.size, size, generator)

    def bonus(self, rollout: Rollout) -> Tensor:
        """The variance over the models, as a mean over the embedding."""
        phi = self.embed(rollout, rollout.observations)
        inputs = torch.cat([phi, self.action_vectors(rollout)], dim=-1).flatten(0, 1)
        chunks = inputs.split(VECTORS_PER_CHUNK[inputs.device.type != "cpu"])
        return torch.cat([self._variance(chunk) for chunk in chunks]).reshape(rollout.dones.shape)

    def _variance(self, inputs: Tensor) -> Tensor:
        """The variance over the models, as a mean over the embedding, (n,)."""
        predicted = self.models(inputs)
        # `var` over the first dimension takes five times as long.
        variance: Tensor = (predicted - predicted.mean(dim=0)).square_().mean(dim=(0, 2))
        return variance

    def losses(self, batch: Minibatch) -> dict[str, Tensor]:
        """The mean squared error, per model and transition that trains it."""
        with torch.no_grad():
            phi, phi_next = batch.evaluate(self.encoder, "observations", "successors")
        errors = (self.models(torch.cat([phi, batch.actions], dim=-1)) - phi_next).square().mean(dim=-1)
        chosen = torch.rand(errors.shape, generator=batch.generator, device="cpu") < self.config.model_share
        weights = chosen.to(errors.device, errors.dtype, non_blocking=True)
        return {"model_loss": (weights * errors).sum() / weights.sum().clamp(min=1)}


class Ensemble(nn.Module):
    """Dynamics models of equal shape, evaluated together.

    Args:
        n_models: How many.
        inputs: Size of their input.
        outputs: Size of their output.
        generator: Draws the weights.
    """

    def __init__(self, n_models: int, inputs: int, outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        networks = [two_layer_network(inputs, outputs, generator, hidden=HIDDEN) for _ in range(n_models)]
        parameters = zip(*(network.parameters() for network in networks), strict=True)
        weight, bias, out_weight, out_bias = (nn.Parameter(torch.stack(same).detach()) for same in parameters)
        self.weight, self.bias = weight, bias
        self.out_weight, self.out_bias = out_weight, out_bias

    def forward(self, values: Tensor) -> Tensor:
        """What each model answers, (n, inputs) -> (n_models, n, outputs)."""
        inputs = values.expand(len(self.weight), *values.shape)
        hidden = torch.baddbmm(self.bias[:, None], inputs, self.weight.mT).relu()
        return torch.baddbmm(self.out_bias[:, None], hidden, self.out_weight.mT)
