"""Elliptical bonuses: how new the direction of an embedding is (Henaff et al., 2022)."""

from __future__ import annotations

import torch
from torch import Tensor

#: Steps computed at once. A call costs work proportional to its square, and each block some calls of kernels.
BLOCK = 64
#: The largest ||phi||^2 / ridge. Beyond it, float64 could not keep C^-1 positive.
LARGEST_RATIO = 1e8


def elliptical_bonuses(phi: Tensor, ended: Tensor, inverse: Tensor, *, ridge: float) -> tuple[Tensor, Tensor]:
    """The bonus of every step against the embeddings before it in its episode.

    ::

        b_t = phi_t^T C_t^-1 phi_t,      C_t = ridge * I + sum_{i < t} phi_i phi_i^T

    The sum runs over the earlier steps of the episode. Longer embeddings are shortened to `LARGEST_RATIO`, so that a
    bonus is at most that.

    For a block of steps Phi and the inverse A before it, Cholesky's factor L of I + Phi A Phi^T has 1 + b_t as the
    squares of its diagonal, and the inverse after the block is A - (L^-1 Phi A)^T (L^-1 Phi A). This equals one
    rank-one update after each step, without a loop over them.

    Args:
        phi: Embeddings, (n_steps, n_envs, d); zeros in steps that do not count, which change nothing.
        ended: (n_steps, n_envs) bool, the step ended its episode.
        inverse: C^-1 of each environment's running episode, (n_envs, d, d); I / ridge where none is running.
        ridge: C before the first step of an episode is ridge * I.

    Returns:
        The bonuses, (n_steps, n_envs), and C^-1 after the last step, (n_envs, d, d); both float64.
    """
    phi, inverse = _shortened(phi.double(), ridge), inverse.double()
    bonuses = []
    for block, ends in zip(phi.split(BLOCK), ended.split(BLOCK), strict=True):
        bonus, inverse = _block(block.transpose(0, 1), ends.transpose(0, 1), inverse, ridge)
        bonuses.append(bonus.transpose(0, 1))
    return torch.cat(bonuses), inverse


def _shortened(phi: Tensor, ridge: float) -> Tensor:
    longest = (LARGEST_RATIO * ridge) ** 0.5
    factors: Tensor = (longest / phi.norm(dim=-1, keepdim=True)).clamp(max=1)
    return phi * factors


def _block(phi: Tensor, ended: Tensor, inverse: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """One block, environments first: phi is (n_envs, b, d), the bonuses are (n_envs, b)."""
    ends = ended.long()
    # Numbers of the episodes within the block: 0 is the one that was running before it.
    episodes, last = ends.cumsum(dim=1) - ends, ends.sum(dim=1)
    fresh = torch.eye(phi.shape[-1], dtype=phi.dtype, device=phi.device) / ridge
    projected = torch.where((episodes == 0)[..., None], phi @ inverse, phi / ridge)
    same = episodes[:, :, None] == episodes[:, None, :]
    gram = torch.where(same, projected @ phi.transpose(1, 2), 0.0)
    gram.diagonal(dim1=1, dim2=2).add_(1)
    factor = torch.linalg.cholesky(gram)
    bonuses = (factor.diagonal(dim1=1, dim2=2).square() - 1).clamp(min=0)
    # The factor does not mix episodes, so that these are the updates by the running episode's steps.
    running = torch.where((episodes == last[:, None])[..., None], projected, 0.0)
    updates = torch.linalg.solve_triangular(factor, running, upper=False)
    before = torch.where((last == 0)[:, None, None], inverse, fresh)
    return bonuses, before - updates.transpose(1, 2) @ updates
