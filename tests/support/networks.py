"""Networks of dense layers once more, for one input at a time in float64."""

import numpy as np
from numpy.typing import NDArray
from torch import nn

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
