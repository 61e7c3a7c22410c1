"""The one function of the search, and the choice of its backend.

CUDA uses Triton kernels (`triton_search`) where Triton works, everything else tiles of plain torch (`torch_search`).
Both are exact: candidates come from matrix products, their distances from direct differences, and each point is proven
to have no nearer neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor

from revd.functional.search import torch_search
from revd.functional.search.reference_set import ReferenceSet
from revd.functional.search.triton_support import triton_works


def nearest_distances(x: Tensor, references: Sequence[ReferenceSet], k: int) -> list[Tensor]:
    """Distances from the points of x, (b, n, d), to their k nearest in each set, (b, n, k), ascending."""
    # Autocast would compute the products in half precision, for which the error bound does not hold.
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        backend = choose_backend(x.device, x.shape, references, k)
        distances: list[Tensor] = backend.nearest_distances(x, references, k)
        return distances


def choose_backend(
    device: torch.device, shape: tuple[int, ...], references: Sequence[ReferenceSet], k: int
) -> ModuleType:
    """The module that searches from points of a shape, (b, n, d), on a device."""
    # torch.compile cannot trace the cached `triton_works`, so a CPU does not call it.
    if device.type == "cuda" and triton_works(device):
        from revd.functional.search import triton_search

        if triton_search.can_search(shape, references, k):
            return triton_search
    return torch_search
