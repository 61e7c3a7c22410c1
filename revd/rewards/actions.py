"""Actions as the models of a reward see them: vectors in, and a loss for a guess of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from revd.spaces import discrete_sizes, feature_size, features, is_binary

if TYPE_CHECKING:
    from revd.spaces import Space


class ActionModel:
    """How actions of one space enter a network and how well a network guessed them.

    Args:
        space: Box, Discrete, MultiDiscrete or MultiBinary.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.size = feature_size(space)

    def features(self, actions: Tensor) -> Tensor:
        """(n, *action_shape) -> (n, size): one-hot for discrete parts."""
        return features(self.space, actions)

    def loss(self, guessed: Tensor, actions: Tensor) -> Tensor:
        """How far the guess (n, size) is from the actions' features: cross-entropy, or the mean squared error."""
        sizes = discrete_sizes(self.space)
        if sizes is not None:
            parts = zip(guessed.split(sizes, dim=-1), actions.split(sizes, dim=-1), strict=True)
            return torch.stack([functional.cross_entropy(guess, one_hot) for guess, one_hot in parts]).sum()
        if is_binary(self.space):
            return functional.binary_cross_entropy_with_logits(guessed, actions)
        return functional.mse_loss(guessed, actions)
