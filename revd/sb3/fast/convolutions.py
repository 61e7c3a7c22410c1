"""The gradients of a convolution's weights and biases, in one kernel and a sum.

With minibatches of a few dozen frames cuDNN leaves most of a GPU idle: 73, 34 and 28 µs for the three layers of
Nature's network and 64 frames on an H200, 26, 19 and 15 in the first form of this (`benchmarks/convolutions.py`). The
pixels are shared out among all processors, and the parts are added in a fixed order, so that the result is the same
every time, as SB3 asks of cuDNN where there is a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from revd.functional.compiling import current
from revd.sb3.fast import kernels

#: Rows, and columns of the weights, that a program treats at once.
ROWS, COLUMNS = 16, 64
#: Programs to share the rows out to.
PROGRAMS = 264
#: Channels that a program can make.
LARGEST_OUTPUTS = 128
#: Multiplications up to which a GPU is thought to be far from filled by cuDNN; the layers above have 2^27 each.
LARGEST_WORK = 2**29


class OrderedGradients(TorchDispatchMode):
    """Within it, autograd takes the gradients of convolutions from `gradients`, where it is made for them.

    Whatever module a convolution is in, autograd asks one operation, `convolution_backward`, for its gradients; here
    that operation is answered for tensors on a device. All others pass.
    """

    supports_higher_order_operators = True

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._type = device.type  # a policy on "cuda" has its tensors on "cuda:0"

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called for every operation."""
        if function is torch.ops.aten.convolution_backward.default and args[0].device.type == self._type:
            return _backward(*args)
        return function(*args, **(kwargs or {}))


def _backward(gradient: Tensor, images: Tensor, weight: Tensor, *options: Any) -> Any:
    """Torch's `convolution_backward`: the gradients of images, weight and bias, those of them that are wanted."""
    *settings, wanted = options
    if not wanted[1] or not can_differentiate(gradient, images, weight, *settings[1:]):
        return torch.ops.aten.convolution_backward(gradient, images, weight, *options)
    by_images = None
    if wanted[0]:
        by_images = torch.ops.aten.convolution_backward(gradient, images, weight, *settings, [True, False, False])[0]
    by_weight, by_bias = gradients(gradient, images, weight, stride=settings[1])
    return by_images, by_weight, by_bias if wanted[2] else None


def can_differentiate(
    gradient: Tensor,
    images: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> bool:
    """Whether `gradients` is made for a convolution: a plain one of images, with channels innermost in the weights."""
    if images.ndim != 4 or len(stride) != 2 or transposed or groups != 1:
        return False
    plain = not any(padding) and all(step == 1 for step in dilation)
    alike = images.dtype == weight.dtype == torch.float32 and weight.is_contiguous(memory_format=torch.channels_last)
    fits = len(weight) <= LARGEST_OUTPUTS and images.numel() < 2**31
    return plain and alike and fits and 0 < _Tiles.of(gradient, weight).work <= LARGEST_WORK


class _Tiles(NamedTuple):
    """Rows, blocks of columns, and outputs, filled up to what a program can treat."""

    rows: int
    blocks: int
    outputs: int

    @classmethod
    def of(cls, gradient: Tensor, weight: Tensor) -> _Tiles:
        n, n_outputs, out_height, out_width = gradient.shape
        blocks = triton.cdiv(weight[0].numel(), COLUMNS)
        return cls(n * out_height * out_width, blocks, max(triton.next_power_of_2(n_outputs), 16))

    @property
    def work(self) -> int:
        """Multiplications, those with what is filled up included."""
        return self.rows * self.blocks * COLUMNS * self.outputs

    @property
    def share(self) -> int:
        """Rows for each program of a block, so that there are PROGRAMS in all."""
        return int(triton.cdiv(triton.cdiv(self.rows, max(PROGRAMS // self.blocks, 1)), ROWS) * ROWS)


def gradients(gradient: Tensor, images: Tensor, weight: Tensor, *, stride: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Of the weight, (o, c, h, w), and of the bias, (o,), of a convolution of images, (n, c, height, width).

    With g the gradient by what the convolution gave, (n, o, i, j), and x the images ::

        dL/dw[o, c, h, w] = sum_{n, i, j} g[n, o, i, j] x[n, c, i stride + h, j stride + w]
        dL/db[o]          = sum_{n, i, j} g[n, o, i, j]

    in float32, also where torch may round to TF32. A row below is one (n, i, j), a column one (h, w, c), with channels
    innermost, as in memory.
    """
    images, gradient = (tensor.contiguous(memory_format=torch.channels_last) for tensor in (images, gradient))
    _, channels, height, width = images.shape
    _, n_outputs, out_height, out_width = gradient.shape
    _, _, *window = weight.shape
    n_columns = weight[0].numel()
    tiles = _Tiles.of(gradient, weight)
    partial = images.new_empty(triton.cdiv(tiles.rows, tiles.share), n_outputs * (n_columns + 1))
    with current(images.device):
        kernels.convolution_gradients[tiles.blocks, len(partial)](
            images,
            gradient,
            partial,
            tiles.rows,
            tiles.share,
            HEIGHT=height,
            WIDTH=width,
            CHANNELS=channels,
            OUT_HEIGHT=out_height,
            OUT_WIDTH=out_width,
            N_OUTPUTS=n_outputs,
            STRIDE_HEIGHT=stride[0],
            STRIDE_WIDTH=stride[1],
            LINE=window[1] * channels,
            N_COLUMNS=n_columns,
            ROWS=ROWS,
            COLUMNS=COLUMNS,
            OUTPUTS=tiles.outputs,
        )
    by_weight, by_bias = partial.sum(dim=0).split([n_outputs * n_columns, n_outputs])
    return by_weight.view(n_outputs, *window, channels).permute(0, 3, 1, 2), by_bias
