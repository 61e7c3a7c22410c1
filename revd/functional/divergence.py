"""Rényi divergence between two samples, estimated from k-nearest-neighbour distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from revd.functional.neighbors import neighbor_distances

#: The smallest distance whose logarithm is taken, so that exact duplicates keep the estimate finite.
DISTANCE_FLOOR = torch.finfo(torch.float32).tiny


def renyi_divergence(x: Tensor, y: Tensor, *, k: int = 5, alpha: float = 0.5) -> Tensor:
    r"""Estimate the Rényi divergence D_alpha(p || q) from samples x ~ p and y ~ q.

    The estimator of Póczos & Schneider (2011), in which k-NN distances raised to the dimension d stand for volumes::

        D^ = 1/(alpha - 1) log{ 1/N sum_i [ (N-1) mu_k(x_i, X)^d / (M nu_k(x_i, Y)^d) ]^(1-alpha) C }
        C  = Gamma(k)^2 / (Gamma(k - alpha + 1) Gamma(k + alpha - 1))

    Small samples may give negative estimates; they are not clipped. Distances are clamped at `DISTANCE_FLOOR`.

    Args:
        x: Sample of p, (..., n, d).
        y: Sample of q, (..., m, d).
        k: Which neighbour; `k > |alpha - 1|`.
        alpha: Order of the divergence, any number but 1.

    Returns:
        The estimates, (...).
    """
    _check_order(k, alpha)
    own, other = neighbor_distances(x, k=k), neighbor_distances(x, y, k=k)
    n = torch.full(own.shape[:-2], x.shape[-2], device=own.device)
    m = torch.full(own.shape[:-2], y.shape[-2], device=own.device)
    return divergence_from_distances(own[..., -1], other[..., -1], n=n, m=m, dimension=x.shape[-1], k=k, alpha=alpha)


def divergence_from_distances(
    own: Tensor, other: Tensor, *, n: Tensor, m: Tensor, dimension: int, k: int, alpha: float
) -> Tensor:
    """Estimate the Rényi divergence, as `renyi_divergence` does, from known distances.

    Args:
        own: mu_k of every point within its own sample, (..., rows); inf in padded rows, which do not count.
        other: nu_k of every point in the other sample, (..., rows).
        n: Size of the own sample, (...); may be on the host.
        m: Size of the other sample, (...); may be on the host.
        dimension: d, the dimension of the points.
        k: Which neighbour the distances belong to.
        alpha: Order of the divergence.

    Returns:
        The estimates, (...), float32; NaN where no row has both neighbours.
    """
    _check_order(k, alpha)
    valid = (own < torch.inf) & (other < torch.inf)
    log_volumes = dimension * (_log(own) - _log(other))
    log_sizes = ((n - 1).double().log() - m.double().log())[..., None]
    log_sizes = log_sizes.to(own.device, non_blocking=own.device.type == "cuda")
    log_terms = torch.where(valid, (1 - alpha) * (log_sizes + log_volumes), -torch.inf)
    log_mean = log_terms.logsumexp(dim=-1) - valid.sum(dim=-1, dtype=torch.float64).log()
    return ((log_mean + _log_constant(k, alpha)) / (alpha - 1)).float()


def _log(distances: Tensor) -> Tensor:
    return distances.double().clamp(min=DISTANCE_FLOOR).log()


def _log_constant(k: int, alpha: float) -> float:
    """Logarithm of C = Gamma(k)^2 / (Gamma(k - alpha + 1) Gamma(k + alpha - 1))."""
    return 2 * math.lgamma(k) - math.lgamma(k - alpha + 1) - math.lgamma(k + alpha - 1)


def _check_order(k: int, alpha: float) -> None:
    if not math.isfinite(alpha) or alpha == 1:
        raise ValueError(f"alpha must be a finite number other than 1, got {alpha}")
    if k <= abs(alpha - 1):
        raise ValueError(f"k must exceed |alpha - 1| = {abs(alpha - 1):g}, got k = {k}")
