"""An optimiser in the form that a CUDA graph can hold, for as long as it takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop


def is_capturable(optimizer: Optimizer) -> bool:
    """Whether torch can capture this kind of optimiser."""
    return all("capturable" in group for group in optimizer.param_groups)


def align_state(optimizer: Optimizer) -> None:
    """Give moments the memory layout of their parameters, in which files may not have kept them.

    torch's fused kernels refuse mixed layouts and the others are slow with them.
    """
    for parameter, state in optimizer.state.items():
        for name, value in state.items():
            moment = isinstance(value, Tensor) and value.shape == parameter.shape
            if moment and value.stride() != parameter.stride():
                state[name] = torch.empty_like(parameter).copy_(value)


def state_tensors(optimizer: Optimizer) -> list[Tensor]:
    """Everything an optimiser remembers, as far as it is in tensors."""
    return [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]


@contextmanager
def stepping_together(optimizer: Optimizer) -> Iterator[None]:
    """Within it, an optimiser steps all parameters in one call where it can: the same numbers in less of Python.

    torch does that by itself on a GPU, but not on a CPU. Others, as NAdam, would round differently.
    """
    kept = [dict(group) for group in optimizer.param_groups]
    for group in optimizer.param_groups if type(optimizer) in (Adam, AdamW, RMSprop, SGD) else ():
        if _is_free(group):
            group["foreach"] = True
    try:
        yield
    finally:
        for before, group in zip(kept, optimizer.param_groups, strict=True):
            group.update(before)


def _is_free(group: dict[str, Any]) -> bool:
    """Whether the user has left it to torch how parameters are stepped."""
    return group.get("foreach") is None and group.get("fused") is None and not group.get("differentiable")


class CapturableForm:
    """Makes an optimiser capturable within a `with`, and what it was after it.

    Outside, nothing tells the difference: learning rates are numbers, `capturable` and `fused` are what the user set.
    So files and other programs never see a setting that needs a GPU. The learning rates' tensors stay the same from
    one time to the next, as captured graphs need it.
    """

    def __init__(self, optimizer: Optimizer, device: torch.device) -> None:
        self._optimizer = optimizer
        self._device = device
        self.rates = [torch.zeros((), device=device) for _ in optimizer.param_groups]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Learning rates and counts of steps as tensors on the device; one kernel for all of Adam."""
        kept = [dict(group) for group in self._optimizer.param_groups]
        for rate, group in zip(self.rates, self._optimizer.param_groups, strict=True):
            rate.fill_(group["lr"])
            group.update(lr=rate, capturable=True, **self._fused(group))
        for state in self._optimizer.state.values():
            state["step"] = torch.as_tensor(state["step"], dtype=torch.float32, device=self._device)
        try:
            yield
        finally:
            for before, group in zip(kept, self._optimizer.param_groups, strict=True):
                group.update(before)

    def _fused(self, group: dict[str, Any]) -> dict[str, bool]:
        return {"fused": True} if _is_free(group) and type(self._optimizer) in (Adam, AdamW) else {}
