"""The search behind every neighbour function, and the choice of who does it.

On CUDA a fused Triton kernel (`fused`), where Triton can be imported; everywhere else tiles of plain torch (`tiled`).
Both are exact: candidates from products, distances from direct differences, and a proof for each point.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor

from revd.functional.search import torch_search
from revd.functional.search.reference_set import Target
from revd.functional.search.triton_support import triton_works


def nearest(x: Tensor, targets: Sequence[Target], k: int) -> list[Tensor]:
    """Distances from the points of x, (b, n, d), to their k nearest in each target, (b, n, k), ascending."""
    # Autocast would compute the products in half precision, of which the error bound knows nothing.
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        found: list[Tensor] = backend(x.device, x.shape, targets, k).nearest(x, targets, k)
        return found


def backend(device: torch.device, shape: tuple[int, ...], targets: Sequence[Target], k: int) -> ModuleType:
    """Who searches from points of a shape, (b, n, d), on a device: `fused` or `tiled`."""
    # torch.compile does not look into what is cached: a CPU has no need to ask.
    if device.type == "cuda" and triton_works(device):
        from revd.functional.search import triton_search

        if triton_search.can_search(shape, targets, k):
            return triton_search
    return torch_search
