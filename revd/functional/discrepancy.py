"""The two factors of REVD's reward, from k-nearest-neighbour distances."""

from __future__ import annotations

import torch
from torch import Tensor


def discrepancy(own: Tensor, previous: Tensor, *, eps: float, alpha: float) -> Tensor:
    """The ratio of a state's distances to the previous episode and to its own, to the power 1 - alpha.

    ::

        [ nu_k / (mu_k + eps) ]^(1 - alpha)

    Args:
        own: mu_k, the distance to the k-th nearest other state of the same episode, any shape; inf where there is none.
        previous: nu_k, the distance to the k-th nearest state of the previous episode, of the same shape.
        eps: Keeps the ratio finite if a state has k exact duplicates.
        alpha: Order of the Rényi divergence that the ratio comes from.

    Returns:
        One value for each state, of the same shape; 0 where either neighbour is missing.
    """
    found = (own < torch.inf) & (previous < torch.inf)
    return torch.where(found, (previous / (own + eps)) ** (1 - alpha), 0.0)


def spread(nearest: Tensor) -> Tensor:
    """The spread of an episode's states: L(E) = tanh( mean_t mu_1(e_t, E) ).

    Args:
        nearest: mu_1 of every state, (..., n); inf in padded rows, which do not count.

    Returns:
        L, (...), in [0, 1]; 0 where no state has a neighbour.
    """
    found = nearest < torch.inf
    total = torch.where(found, nearest, 0.0).sum(dim=-1)
    return torch.tanh(total / found.sum(dim=-1).clamp(min=1))
