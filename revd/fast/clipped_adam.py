"""Gradient clipping and Adam in two kernels, faster than torch's for small networks.

torch's fused Adam gives 65,536 numbers to each block of threads, which leaves most of a GPU idle for a policy with a
few million parameters. torch's clipping reads the gradients twice before that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from revd.fast import triton_kernels
from revd.functional.search.triton_support import launching_on

#: Numbers per program.
BLOCK = 2048
#: Tensors per launch: the arguments of a launch may take up to 4 KiB.
TENSORS_PER_LAUNCH = 64


def can_step(optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> bool:
    """Whether `step` can replace clipping and the optimiser.

    It can for plain Adam in float32 that has its state already and one group of parameters.

    Args:
        optimizer: In its capturable mode.
        parameters: The parameters with gradients; the optimiser must have the same.
    """
    if type(optimizer) is not Adam or len(optimizer.param_groups) != 1 or not parameters:
        return False
    group = optimizer.param_groups[0]
    plain = not (group["amsgrad"] or group["maximize"] or group["weight_decay"]) and min(group["betas"]) > 0
    stepped = {id(parameter) for parameter in group["params"] if parameter.grad is not None}
    same = stepped == {id(parameter) for parameter in parameters}
    return plain and same and bool(group["fused"]) and all(_is_simple(each, optimizer) for each in parameters)


def _is_simple(parameter: nn.Parameter, optimizer: Optimizer) -> bool:
    """Whether parameter, gradient and moments are float32 with one dense memory layout."""
    state, gradient = optimizer.state.get(parameter), parameter.grad
    if not state or gradient is None:
        return False
    tensors = (parameter, gradient, state["exp_avg"], state["exp_avg_sq"])
    layouts = [torch.contiguous_format, *([torch.channels_last] if parameter.ndim == 4 else [])]
    same_layout = any(all(tensor.is_contiguous(memory_format=layout) for tensor in tensors) for layout in layouts)
    return same_layout and all(tensor.dtype == torch.float32 for tensor in tensors)


class _Launch(NamedTuple):
    """The parameters of one launch, and the first program of each."""

    parameters: list[nn.Parameter]
    starts: tuple[int, ...]
    programs: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(parameter.numel() for parameter in self.parameters)


def step(optimizer: Optimizer, parameters: Sequence[nn.Parameter], max_norm: float) -> None:
    """Do `clip_grad_norm_(parameters, max_norm)` and `optimizer.step()`, but keep the gradients.

    ::

        g <- g min(1, max_norm / (|g| + 1e-6))        |g| over all parameters
        m <- beta1 m + (1 - beta1) g
        v <- beta2 v + (1 - beta2) g^2
        p <- p - rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
    """
    group: dict[str, Any] = optimizer.param_groups[0]
    (beta1, beta2), states = group["betas"], optimizer.state
    launches = list(_launches(parameters))
    torch._foreach_add_([states[parameter]["step"] for parameter in parameters], 1)
    with launching_on(parameters[0].device):
        squared_norm = _squared_norm(launches)
        for launch in launches:
            moments = [states[parameter] for parameter in launch.parameters]
            triton_kernels.adam[(launch.programs,)](
                tuple(launch.parameters),
                _gradients(launch),
                tuple(state["exp_avg"] for state in moments),
                tuple(state["exp_avg_sq"] for state in moments),
                tuple(state["step"] for state in moments),
                launch.starts,
                launch.sizes,
                squared_norm,
                max_norm,
                group["lr"],
                BETA1=beta1,
                BETA2=beta2,
                EPS=group["eps"],
                LOG_BETA1=math.log(beta1),
                LOG_BETA2=math.log(beta2),
                COUNT=len(launch.parameters),
                BLOCK=BLOCK,
            )


def _launches(parameters: Sequence[nn.Parameter]) -> Iterator[_Launch]:
    for first in range(0, len(parameters), TENSORS_PER_LAUNCH):
        chunk = list(parameters[first : first + TENSORS_PER_LAUNCH])
        *starts, programs = accumulate((triton.cdiv(each.numel(), BLOCK) for each in chunk), initial=0)
        yield _Launch(chunk, tuple(starts), programs)


def _squared_norm(launches: Sequence[_Launch]) -> Tensor:
    """Return the squared norm of all gradients, ()."""
    sums = launches[0].parameters[0].new_empty(sum(launch.programs for launch in launches))
    for launch, launch_sums in zip(launches, sums.split([launch.programs for launch in launches]), strict=True):
        triton_kernels.sum_squares[(launch.programs,)](
            _gradients(launch), launch.starts, launch.sizes, launch_sums, COUNT=len(launch.parameters), BLOCK=BLOCK
        )
    return sums.sum()


def _gradients(launch: _Launch) -> tuple[Tensor, ...]:
    gradients = tuple(parameter.grad for parameter in launch.parameters if parameter.grad is not None)
    assert len(gradients) == len(launch.parameters)
    return gradients
