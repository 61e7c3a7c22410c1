"""Networks of dense layers once more, for one input at a time in float64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

Vector = NDArray[np.float64]


def dense(network: nn.Sequential, values: Vector) -> Vector:
    """What a network of Linear and ReLU layers answers to one vector."""
    for layer in network:
        if isinstance(layer, nn.Linear):
            weight, bias = (parameter.detach().double().numpy() for parameter in (layer.weight, layer.bias))
            values = weight @ values + bias
        else:
            assert isinstance(layer, nn.ReLU)
            values = np.maximum(values, 0)
    return values


def whitened(state: Tensor, statistics_of: Any) -> Vector:
    """A state less its mean, over its deviation, within 5, by the running statistics of an encoder that has them."""
    values = state.double().numpy()
    if statistics_of.normalizer is None:
        return values
    mean, std = statistics_of.normalizer.moments.mean.numpy(), statistics_of.normalizer.moments.std.numpy()
    return np.clip((values - mean) / np.where(std > 1e-6, std, 1.0), -5, 5)


def mistake(predictor: Any, target: Any, state: Tensor) -> Vector:
    """f^(s) - f(s) of one state, which both see whitened by the target's statistics."""
    seen = whitened(state, target)
    return dense(predictor.network, seen) - dense(target.network, seen)


def mean_squared_mistake(predictor: Any, target: Any, states: Tensor) -> float:
    """Over states and over d."""
    return float(np.mean([mistake(predictor, target, state) ** 2 for state in states]))
