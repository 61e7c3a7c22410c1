"""Actions as vectors for the models of a reward, and the loss of predicted actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from revd.spaces import discrete_sizes, feature_size, features, is_binary

if TYPE_CHECKING:
    from revd.spaces import Space


class ActionModel:
    """Turns actions of one space into vectors, and measures how well a network predicted them.

    Args:
        space: Box, Discrete, MultiDiscrete or MultiBinary.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.size = feature_size(space)

    def features(self, actions: Tensor) -> Tensor:
        """Vectors of actions, (n, *action_shape) -> (n, size); one-hot for discrete parts."""
        return features(self.space, actions)

    def loss(self, predicted: Tensor, actions: Tensor) -> Tensor:
        """The loss of a prediction, (n, size), of the actions' features: cross-entropy or mean squared error."""
        sizes = discrete_sizes(self.space)
        if sizes is not None:
            parts = zip(predicted.split(sizes, dim=-1), actions.split(sizes, dim=-1), strict=True)
            return torch.stack([functional.cross_entropy(part, one_hot) for part, one_hot in parts]).sum()
        if is_binary(self.space):
            return functional.binary_cross_entropy_with_logits(predicted, actions)
        return functional.mse_loss(predicted, actions)
