"""Clipping and Adam in few kernels, for networks that are too small for those of torch.

torch's fused Adam gives 65,536 numbers to each block of threads, which leaves most of a GPU idle where a policy has a
few million of them, and clipping goes over the gradients twice before that.
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

#: Numbers of one program, and tensors of one launch, whose arguments are limited to 4 KiB.
BLOCK, MOST = 2048, 64


def can_step(optimizer: Optimizer, parameters: Sequence[nn.Parameter]) -> bool:
    """Whether `step` does what clipping and the optimiser would do: plain Adam, warm, of float32, in one group.

    Args:
        optimizer: In its capturable form.
        parameters: Those with a gradient that clipping looks at; the optimiser must have no others.
    """
    if type(optimizer) is not Adam or len(optimizer.param_groups) != 1 or not parameters:
        return False
    group = optimizer.param_groups[0]
    plain = not (group["amsgrad"] or group["maximize"] or group["weight_decay"]) and min(group["betas"]) > 0
    same = {id(each) for each in group["params"] if each.grad is not None} == {id(each) for each in parameters}
    return plain and same and bool(group["fused"]) and all(_is_simple(each, optimizer) for each in parameters)


def _is_simple(parameter: nn.Parameter, optimizer: Optimizer) -> bool:
    state, gradient = optimizer.state.get(parameter), parameter.grad
    if not state or gradient is None:
        return False
    tensors = (parameter, gradient, state["exp_avg"], state["exp_avg_sq"])
    layouts = [torch.contiguous_format, *([torch.channels_last] if parameter.ndim == 4 else [])]
    alike = any(all(tensor.is_contiguous(memory_format=layout) for tensor in tensors) for layout in layouts)
    return alike and all(tensor.dtype == torch.float32 for tensor in tensors)


class _Batch(NamedTuple):
    """Some parameters, and at which program each begins."""

    parameters: list[nn.Parameter]
    starts: tuple[int, ...]
    programs: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(parameter.numel() for parameter in self.parameters)


def step(optimizer: Optimizer, parameters: Sequence[nn.Parameter], max_norm: float) -> None:
    """`clip_grad_norm_(parameters, max_norm)` and `optimizer.step()`, except that gradients stay as they are.

    ::

        g <- g min(1, max_norm / (|g| + 1e-6))        |g| over all parameters
        m <- beta1 m + (1 - beta1) g
        v <- beta2 v + (1 - beta2) g^2
        p <- p - rate / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
    """
    group: dict[str, Any] = optimizer.param_groups[0]
    (beta1, beta2), states = group["betas"], optimizer.state
    batches = list(_batches(parameters))
    torch._foreach_add_([states[parameter]["step"] for parameter in parameters], 1)
    with launching_on(parameters[0].device):
        square = _square(batches)
        for batch in batches:
            moments = [states[parameter] for parameter in batch.parameters]
            triton_kernels.change[(batch.programs,)](
                tuple(batch.parameters),
                _gradients(batch),
                tuple(state["exp_avg"] for state in moments),
                tuple(state["exp_avg_sq"] for state in moments),
                tuple(state["step"] for state in moments),
                batch.starts,
                batch.sizes,
                square,
                max_norm,
                group["lr"],
                BETA1=beta1,
                BETA2=beta2,
                EPS=group["eps"],
                LOG_BETA1=math.log(beta1),
                LOG_BETA2=math.log(beta2),
                COUNT=len(batch.parameters),
                BLOCK=BLOCK,
            )


def _batches(parameters: Sequence[nn.Parameter]) -> Iterator[_Batch]:
    for first in range(0, len(parameters), MOST):
        some = list(parameters[first : first + MOST])
        *starts, programs = accumulate((triton.cdiv(each.numel(), BLOCK) for each in some), initial=0)
        yield _Batch(some, tuple(starts), programs)


def _square(batches: Sequence[_Batch]) -> Tensor:
    """The squared norm of all gradients, ()."""
    sums = batches[0].parameters[0].new_empty(sum(batch.programs for batch in batches))
    for batch, part in zip(batches, sums.split([batch.programs for batch in batches]), strict=True):
        triton_kernels.squares[(batch.programs,)](
            _gradients(batch), batch.starts, batch.sizes, part, COUNT=len(batch.parameters), BLOCK=BLOCK
        )
    return sums.sum()


def _gradients(batch: _Batch) -> tuple[Tensor, ...]:
    found = tuple(parameter.grad for parameter in batch.parameters if parameter.grad is not None)
    assert len(found) == len(batch.parameters)
    return found
