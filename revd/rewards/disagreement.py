"""Disagreement: Self-Supervised Exploration via Disagreement (Pathak et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from revd.encoders import VECTORS_PER_CHUNK
from revd.networks import two_layer_network
from revd.rewards.config import LARGEST_COUNT, RewardConfig, require, require_choice, require_integer
from revd.rewards.dynamics import DynamicsReward
from revd.rewards.trained import TrainedConfig

if TYPE_CHECKING:
    from revd.rewards.trained import Minibatch
    from revd.rollout import Rollout

#: Hidden units of each forward model: five have about as many weights as one of RIDE's.
HIDDEN = 64

#: What trains phi.
Features = Literal["random", "inverse", "dynamics"]


@dataclass(frozen=True, kw_only=True)
class DisagreementConfig(TrainedConfig):
    """Parameters of Disagreement.

    Attributes:
        n_models: Forward models that are compared.
        model_share: Probability with which a transition trains each model, so that they see different ones.
        features: What trains phi: nothing ("random"), an inverse model ("inverse"), or an inverse model and the errors
            of the forward models ("dynamics"), which remove noise from phi.
    """

    update_fraction: float = 0.25
    n_models: int = 5
    model_share: float = 0.8
    features: Features = "random"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("n_models", self.n_models, minimum=2, maximum=LARGEST_COUNT)
        require(0 < self.model_share <= 1, "model_share", self.model_share, "inside (0, 1]")
        require_choice("features", self.features, get_args(Features))


class Disagreement(DynamicsReward):
    """Pays for transitions on which several forward models disagree, which they do until they have learnt them.

    ::

        r^_t = 1/d sum_j Var_i [ g_i(phi(s_t), a_t)_j ]

    Models g_1 ... g_N start from different random weights, and each transition trains a model with probability
    `model_share` only. What cannot be predicted at all, such as noise, they learn to answer by the same mean.

    phi is frozen and random by default. With `features="inverse"` an inverse model p(a | phi, phi') trains it, which
    leaves in phi the noise that it need not read. With `features="dynamics"` the models' errors train phi as well, as
    in ICM, and remove that noise.

    Metrics: `bonus_mean`; losses: `model_loss` (mean squared error of the models), `inverse_loss` if phi is trained.
    """

    advice = "Stochastic worlds: outcomes that nothing predicts are hardly paid."
    config_type: ClassVar[type[RewardConfig]] = DisagreementConfig
    config: DisagreementConfig

    @property
    def trains_encoder(self) -> bool:
        """Whether phi is trained, at least by an inverse model."""
        return self.config.features != "random"

    def build(self, generator: torch.Generator) -> None:
        """Make the forward models, and the inverse model, if phi is trained."""
        size = self.encoder.embedding_size
        self.models = Ensemble(self.config.n_models, size + self.actions.size, size, generator)
        super().build(generator)

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

    def embedded_losses(self, phi: Tensor, phi_next: Tensor, batch: Minibatch) -> dict[str, Tensor]:
        """The losses of the forward models, which train phi for "dynamics" only, and of the inverse model, if any."""
        states = (phi, phi_next) if self.config.features == "dynamics" else (phi.detach(), phi_next.detach())
        return {"model_loss": self._model_loss(*states, batch), **super().embedded_losses(phi, phi_next, batch)}

    def _model_loss(self, phi: Tensor, phi_next: Tensor, batch: Minibatch) -> Tensor:
        """The mean squared error, per model and transition that trains it."""
        errors = (self.models(torch.cat([phi, batch.actions], dim=-1)) - phi_next).square().mean(dim=-1)
        chosen = torch.rand(errors.shape, generator=batch.generator, device="cpu") < self.config.model_share
        weights = chosen.to(errors.device, errors.dtype, non_blocking=True)
        loss: Tensor = (weights * errors).sum() / weights.sum().clamp(min=1)
        return loss


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
