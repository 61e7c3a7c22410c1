"""Multilayer perceptrons with Tanh as plain matrix products, forward and backward.

With 64 units per layer, much of the time of a pass is not arithmetic: it is Python around small operations, and
autograd's graph. Here a pass is one call per operation, in the order of torch's layers and of autograd. On a CPU
every number equals theirs to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Layer(NamedTuple):
    """A linear layer: weight (n_outputs, n_inputs) and bias (n_outputs,), or the gradients of both."""

    weight: Tensor
    bias: Tensor


def run(layers: Sequence[Layer], features: Tensor) -> list[Tensor]:
    """Return the input of each layer, and the output of the last.

    ::

        x_{i+1} = tanh(W_i x_i + b_i),      y = W_n x_n + b_n

    Args:
        layers: The network, with Tanh between any two layers.
        features: x_1, (n, n_inputs).
    """
    passed = [features]
    for weight, bias in layers[:-1]:
        passed.append(torch.addmm(bias, passed[-1], weight.t()).tanh_())
    weight, bias = layers[-1]
    return [*passed, torch.addmm(bias, passed[-1], weight.t())]


def run_back(layers: Sequence[Layer], gradients: Sequence[Layer], passed: Sequence[Tensor], gradient: Tensor) -> None:
    """Write the gradients of all layers.

    ::

        dW_i = g_i x_i^T,      db_i = g_i,      g_{i-1} = (1 - x_i^2) * W_i^T g_i

    The first two are summed over the rows.

    Args:
        layers: The network.
        gradients: Where they are written.
        passed: What `run` returned.
        gradient: g_n, that of the network's output, (n, n_outputs).
    """
    for index in reversed(range(len(layers))):
        torch.mm(gradient.t(), passed[index], out=gradients[index].weight)
        torch.sum(gradient, 0, out=gradients[index].bias)
        if index:
            gradient = torch.mm(gradient, layers[index].weight)
            torch.ops.aten.tanh_backward.grad_input(gradient, passed[index], grad_input=gradient)
