"""The base class of rewards whose phi is learnt by predicting the agent's own actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from revd.networks import two_layer_network
from revd.rewards.trained import TrainedReward

if TYPE_CHECKING:
    from revd.rewards.trained import Minibatch


class DynamicsReward(TrainedReward):
    """A reward on an embedding phi that an inverse model p(a | phi, phi') trains, and a forward model g(phi, a) if set.

    To guess the action, phi must keep what the agent's actions change. It need not keep anything else. A subclass
    implements `bonus`. With `uses_forward_model = True` it has a forward model as well, whose loss it may define in
    `forward_loss`. Without the inverse model (`trains_encoder` is False) phi stays random: the forward loss alone would
    make phi a constant.

    Losses: `inverse_loss`, `forward_loss`.
    """

    uses_forward_model: ClassVar[bool] = False

    @property
    def trains_encoder(self) -> bool:
        """Phi is trained together with the inverse model."""
        return True

    def build(self, generator: torch.Generator) -> None:
        """Make the forward model, if it is used, and the inverse model, if phi is trained."""
        size, actions = self.encoder.embedding_size, self.actions.size
        forward, inverse = self.uses_forward_model, self.trains_encoder
        self.forward_model = two_layer_network(size + actions, size, generator) if forward else None
        self.inverse_model = two_layer_network(2 * size, actions, generator) if inverse else None

    def losses(self, batch: Minibatch) -> dict[str, Tensor]:
        """The losses of the models that the method has."""
        with torch.set_grad_enabled(self.trains_encoder):
            phi, phi_next = batch.evaluate(self.encoder, "observations", "successors")
        return self.embedded_losses(phi, phi_next, batch)

    def embedded_losses(self, phi: Tensor, phi_next: Tensor, batch: Minibatch) -> dict[str, Tensor]:
        """The losses of a minibatch embedded as phi(s_t) and phi(s_{t+1}), (n, d) each, with gradients for phi."""
        losses = {}
        if self.uses_forward_model:
            losses["forward_loss"] = self.forward_loss(self.forward_errors(phi, batch.actions, phi_next))
        if self.trains_encoder:
            losses["inverse_loss"] = self.inverse_loss(phi, batch.actions, phi_next)
        return losses

    def inverse_loss(self, phi: Tensor, actions: Tensor, phi_next: Tensor) -> Tensor:
        """The mean loss of the inverse model's guesses of the actions."""
        assert self.inverse_model is not None
        return self.actions.loss(self.inverse_model(torch.cat([phi, phi_next], dim=-1)), actions)

    def forward_errors(self, phi: Tensor, actions: Tensor, phi_next: Tensor) -> Tensor:
        """g(phi(s_t), a_t) - phi(s_{t+1}), (n, d)."""
        assert self.forward_model is not None
        predicted: Tensor = self.forward_model(torch.cat([phi, actions], dim=-1))
        return predicted - phi_next

    def forward_loss(self, errors: Tensor) -> Tensor:
        """The mean Euclidean length of the errors, (n, d)."""
        lengths: Tensor = errors.norm(dim=-1)
        return lengths.mean()
