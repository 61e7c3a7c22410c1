"""Episodic pseudo-counts with the kernel of Never Give Up (Badia et al., 2020)."""

from __future__ import annotations

import torch
from torch import Tensor


def kernel_sums(distances: Tensor, mean_square: Tensor, *, eps: float, cluster_distance: float) -> Tensor:
    """How often a state was visited before, estimated by a kernel over its k nearest earlier states.

    With the distances d_i to the k nearest earlier states and their mean square d_m^2::

        sum_i eps / (max(d_i^2 / d_m^2 - xi, 0) + eps)

    An earlier state within the cluster distance xi adds 1.

    Args:
        distances: (..., k); inf where a neighbour is missing, which adds nothing.
        mean_square: d_m^2, a scalar. If it is 0, all neighbours so far were exact duplicates, and each adds 1.
        eps: The kernel's eps.
        cluster_distance: xi.

    Returns:
        The sums, (...).
    """
    scaled = distances.square() / mean_square.clamp(min=torch.finfo(torch.float32).tiny)
    return (eps / ((scaled - cluster_distance).clamp(min=0) + eps)).sum(dim=-1)


def pseudo_counts(distances: Tensor, mean_square: Tensor, *, eps: float, cluster_distance: float) -> Tensor:
    """Visits of a state, N = 1 + `kernel_sums`: the 1 is the visit itself, so that N >= 1.

    Takes the arguments of `kernel_sums`, and returns N, (...).
    """
    return 1 + kernel_sums(distances, mean_square, eps=eps, cluster_distance=cluster_distance)
