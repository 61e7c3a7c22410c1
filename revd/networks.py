"""Random networks: the paper's CNN and MLP, a dynamics model, and convolutions with a folded BatchNorm."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

#: The distribution of initial weights.
Initialization = Literal["orthogonal", "torch"]


def conv_network(
    shape: tuple[int, ...], embedding_size: int, generator: torch.Generator, init: Initialization = "orthogonal"
) -> nn.Sequential:
    """The paper's CNN (table "CNN-based"), strides 4, 2, 1, for images (channels, height, width)."""
    convolutions = nn.Sequential(
        skip_init(nn.Conv2d, shape[0], 32, kernel_size=8, stride=4),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        skip_init(nn.Conv2d, 32, 64, kernel_size=4, stride=2),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        skip_init(nn.Conv2d, 64, 32, kernel_size=3, stride=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Flatten(),
    )
    flat = 32 * math.prod(_conv_side(side) for side in shape[1:])
    head = [skip_init(nn.Linear, flat, 512), nn.ReLU(), skip_init(nn.Linear, 512, embedding_size)]
    return _initialized(nn.Sequential(*convolutions, *head), init, generator)


def dense_network(
    inputs: int, embedding_size: int, generator: torch.Generator, init: Initialization = "orthogonal"
) -> nn.Sequential:
    """The paper's MLP encoder (table "MLP-based")."""
    network = nn.Sequential(
        skip_init(nn.Linear, inputs, 64),
        nn.ReLU(),
        skip_init(nn.Linear, 64, 64),
        nn.ReLU(),
        skip_init(nn.Linear, 64, embedding_size),
    )
    return _initialized(network, init, generator)


def two_layer_network(inputs: int, outputs: int, generator: torch.Generator, *, hidden: int = 256) -> nn.Sequential:
    """A dynamics model: Dense hidden, ReLU, Dense outputs."""
    network = nn.Sequential(skip_init(nn.Linear, inputs, hidden), nn.ReLU(), skip_init(nn.Linear, hidden, outputs))
    return _initialized(network, "orthogonal", generator)


class Convolution(NamedTuple):
    """Weight, bias and stride of a convolution."""

    weight: Tensor
    bias: Tensor
    stride: tuple[int, ...]


def folded(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> Convolution:
    """A convolution and the BatchNorm in eval mode behind it, as one convolution."""
    assert convolution.bias is not None
    assert norm.running_mean is not None
    assert norm.running_var is not None
    gain = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    weight = convolution.weight * gain[:, None, None, None]
    bias = (convolution.bias - norm.running_mean) * gain + norm.bias
    return Convolution(weight, bias, convolution.stride)


def convolve(images: Tensor, convolution: Convolution) -> Tensor:
    """`conv2d` in float32, on every device.

    On CUDA torch's default is TF32, with 10 bits of mantissa, and cuDNN may choose its algorithm by timing. `conv2d`
    reads both settings from global flags. The function below it takes them as arguments, so no flag must be changed.
    """
    return torch._convolution(
        images,
        *convolution,
        padding=(0, 0),
        dilation=(1, 1),
        transposed=False,
        output_padding=(0, 0),
        groups=1,
        benchmark=False,
        deterministic=True,
        cudnn_enabled=torch.backends.cudnn.enabled,
        allow_tf32=False,
    )


def _initialized(network: nn.Sequential, init: Initialization, generator: torch.Generator) -> nn.Sequential:
    initialize = _orthogonal if init == "orthogonal" else _as_torch
    for layer in network:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            initialize(layer, generator)
    return network


def _orthogonal(layer: nn.Conv2d | nn.Linear, generator: torch.Generator) -> None:
    assert layer.bias is not None
    nn.init.orthogonal_(layer.weight, gain=math.sqrt(2), generator=generator)
    nn.init.zeros_(layer.bias)


def _as_torch(layer: nn.Conv2d | nn.Linear, generator: torch.Generator) -> None:
    """The distribution of PyTorch's `reset_parameters`, which draws from the global generator."""
    assert layer.bias is not None
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
    bound = 1 / math.sqrt(layer.weight[0].numel())
    nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def _conv_side(side: int) -> int:
    for kernel, stride in ((8, 4), (4, 2), (3, 1)):
        side = (side - kernel) // stride + 1
    return side
