"""Discounted sums of a sequence so far."""

from __future__ import annotations

import torch
from torch import Tensor

#: Steps that one matrix product sums up.
BLOCK = 128


def discounted_sums(values: Tensor, before: Tensor, *, gamma: float) -> Tensor:
    """R_t = gamma R_{t-1} + r_t for r (n_steps, n), with R_{-1} = `before`, (n,).

    A block of steps is one product with the triangular matrix of powers of gamma.
    """
    steps = torch.arange(BLOCK, device=values.device)
    exponents = (steps[:, None] - steps).clamp(min=0)
    powers = (gamma ** exponents.to(values.dtype)).tril()
    sums = []
    for block in values.split(BLOCK):
        size = len(block)
        sums.append(powers[:size, :size] @ block + gamma * powers[:size, :1] * before)
        before = sums[-1][-1]
    return torch.cat(sums)
