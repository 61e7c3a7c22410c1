"""Optimisers for CUDA graphs: a capturable mode that is undone afterwards, and faster steps on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop


def is_capturable(optimizer: Optimizer) -> bool:
    """Whether torch can capture this kind of optimiser in a CUDA graph."""
    return all("capturable" in group for group in optimizer.param_groups)


def align_state(optimizer: Optimizer) -> None:
    """Give moments the memory layout of their parameters, which a saved file may not have kept.

    With mixed layouts, torch's fused kernels fail and its other kernels are slow.
    """
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            is_moment = isinstance(value, Tensor) and value.shape == parameter.shape
            if is_moment and value.stride() != parameter.stride():
                state[name] = torch.empty_like(parameter).copy_(value)


def state_tensors(optimizer: Optimizer) -> list[Tensor]:
    """All tensors in an optimiser's state."""
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]


@contextmanager
def foreach_stepping(optimizer: Optimizer) -> Iterator[None]:
    """Within the block, step all parameters in one call: the same numbers with less Python.

    torch does so by default on a GPU but not on a CPU. Other optimisers, such as NAdam, would round differently.
    """
    saved_groups = [dict(group) for group in optimizer.param_groups]
    for group in optimizer.param_groups if type(optimizer) in (Adam, AdamW, RMSprop, SGD) else ():
        if _uses_default_kernels(group):
            group["foreach"] = True
    try:
        yield
    finally:
        for saved, group in zip(saved_groups, optimizer.param_groups, strict=True):
            group.update(saved)


def _uses_default_kernels(group: dict[str, Any]) -> bool:
    """Whether the user left the choice of kernels to torch."""
    return group.get("foreach") is None and group.get("fused") is None and not group.get("differentiable")


class CapturableMode:
    """Makes an optimiser capturable within a block and restores its settings afterwards.

    Outside the block, learning rates are numbers, and `capturable` and `fused` are the user's. So neither files nor
    other programs see a setting that needs a GPU. The tensors of the learning rates stay the same from block to block,
    because captured graphs hold their addresses.

    Attributes:
        rates: The learning rate of each parameter group, ().
    """

    def __init__(self, optimizer: Optimizer, device: torch.device) -> None:
        self._optimizer = optimizer
        self._device = device
        self.rates = [torch.zeros((), device=device) for _ in optimizer.param_groups]

    @contextmanager
    def enabled(self) -> Iterator[None]:
        """Keep learning rates and step counts as tensors on the device; step Adam with one fused kernel."""
        saved_groups = [dict(group) for group in self._optimizer.param_groups]
        for rate, group in zip(self.rates, self._optimizer.param_groups, strict=True):
            rate.fill_(group["lr"])
            group.update(lr=rate, capturable=True, **self._fused(group))
        for state in self._optimizer.state.values():
            state["step"] = torch.as_tensor(state["step"], dtype=torch.float32, device=self._device)
        try:
            yield
        finally:
            for saved, group in zip(saved_groups, self._optimizer.param_groups, strict=True):
                group.update(saved)

    def _fused(self, group: dict[str, Any]) -> dict[str, bool]:
        fuse = _uses_default_kernels(group) and type(self._optimizer) in (Adam, AdamW)
        return {"fused": True} if fuse else {}
