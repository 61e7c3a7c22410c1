"""The search in plain torch: exact on near-duplicates too, tile by tile, in memory linear in m.

A matrix product finds a few candidates for each point, whose distances are then computed from direct differences. The
product form |x|^2 - 2xy + |y|^2 cancels where points are close, so a bound on its rounding error decides for each point
whether a column that was left out could have been nearer; where it could, all its distances are computed directly.
Where the product is allowed less than float32 precision, everything is computed directly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from revd.functional.search.reference_set import Target
from revd.functional.search.reused_buffers import Workspace
from revd.functional.search.rounding import direct_slack, float32_bound, underflow
from revd.functional.search.smallest import smallest, sorted_rows

#: Products held at once: 4 MiB on the CPU, which its cache holds, and 128 MiB on a GPU, which keeps it busy …
TILE_ELEMENTS = 1_048_576
TILE_ELEMENTS_ON_GPU = 33_554_432
#: … but at least so many rows against all columns, since a product of a few rows is slow.
TILE_ROWS = 256
#: Candidates beyond the k asked for: the more, the fewer points must be searched directly.
SPARE = 3
#: Numbers in a line of the processor's cache.
CACHE_LINE = 16


def nearest(x: Tensor, targets: Sequence[Target], k: int) -> list[Tensor]:
    """Distances from the points of x, (b, n, d), to their k nearest in each target, (b, n, k), ascending."""
    workspace = Workspace(x.device)
    return [_search(x, target, k, workspace) for target in targets]


def _search(x: Tensor, target: Target, k: int, workspace: Workspace) -> Tensor:
    batches, n, d = x.shape
    m = target.columns.shape[1]
    candidates = k + SPARE
    out = x.new_empty(batches, n, k)
    groups, size = _grouping(m, candidates)
    elements = TILE_ELEMENTS if x.device.type == "cpu" else TILE_ELEMENTS_ON_GPU
    row_step = max(TILE_ROWS, elements // max(1, groups * size, candidates * d))
    batch_step = max(1, row_step // max(n, 1))
    certify = m > candidates and _product_is_precise(x.device)
    for b in range(0, batches, batch_step):
        batch = slice(b, b + batch_step)
        columns = _Columns.of(target, batch, groups * size, workspace) if certify else None
        for r in range(0, n, row_step):
            rows = slice(r, min(r + row_step, n))
            hidden = _Hidden.of(target, batch, rows)
            if columns is None:
                out[batch, rows] = _direct(x[batch, rows], target.columns[batch], k, hidden)
            else:
                out[batch, rows] = _certified(x[batch, rows], columns, groups, k, hidden, workspace)
    return out


def _grouping(m: int, candidates: int) -> tuple[int, int]:
    """Groups and columns in each: so that the selections among groups and in the chosen ones are of similar length.

    Rows of whole cache lines keep the product fast.
    """
    size = 1 << max(0, math.floor(math.log2(max(m, 1) / candidates) / 2))
    return _multiple(-(-m // size), CACHE_LINE), size


class _Columns(NamedTuple):
    """What all rows of a batch are compared with: points, and the same about their mean, with squared norms.

    The latter are filled up to `width` columns, at infinity.
    """

    points: Tensor
    center: Tensor
    centred: Tensor
    square: Tensor
    largest: Tensor

    @classmethod
    def of(cls, target: Target, batch: slice, width: int, workspace: Workspace) -> _Columns:
        points = target.columns[batch]
        m = points.shape[1]
        hidden = None
        if target.visible is None:
            center = points.mean(dim=1, keepdim=True)
        else:
            # Padding may hold anything; columns that no row sees must reach neither the mean nor the largest norm.
            counts = target.visible[batch].amax(dim=1)[:, None, None]
            hidden = torch.arange(m, device=points.device)[:, None] >= counts
            points = points.masked_fill(hidden, 0.0)
            center = points.sum(dim=1, keepdim=True) / counts.clamp(min=1)
        centred = workspace.take("centred columns", len(points), width, points.shape[-1])
        torch.sub(points, center, out=centred[:, :m])
        centred[:, m:] = 0.0
        if hidden is not None:
            centred[:, :m].masked_fill_(hidden, 0.0)
        square = _squared_norm(centred)
        largest = square.amax(dim=-1, keepdim=True).sqrt()
        square[:, m:] = torch.inf
        return cls(points, center, centred, square, largest)


class _Hidden(NamedTuple):
    """What the rows of a tile, (b, r), may not see: columns from their limit on, and their own."""

    limits: Tensor | None
    own: Tensor | None

    @classmethod
    def of(cls, target: Target, batch: slice, rows: slice) -> _Hidden:
        limits = None if target.visible is None else target.visible[batch, rows]
        if target.within:
            device = target.columns.device
            own = torch.arange(rows.start, rows.stop, device=device).expand(len(target.columns[batch]), -1)
            return cls(limits, own)
        return cls(limits, None if target.own is None else target.own[batch, rows])

    def hide(self, values: Tensor) -> Tensor:
        """Set to inf in (b, r, m) what a row may not see."""
        if self.own is not None:
            values.scatter_(-1, self.own[..., None], torch.inf)
        if self.limits is not None:
            columns = torch.arange(values.shape[-1], device=values.device)
            values.masked_fill_(columns >= self.limits[..., None], torch.inf)
        return values

    def rows(self, batch: int, rows: Tensor) -> _Hidden:
        """The same for some rows of one batch, (1, rows)."""
        return _Hidden(*(None if part is None else part[batch, rows][None] for part in self))


def _direct(x: Tensor, y: Tensor, k: int, hidden: _Hidden) -> Tensor:
    """All distances from direct differences; a NaN is nobody's neighbour."""
    distances = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    distances.masked_fill_(distances.isnan(), torch.inf)
    return hidden.hide(distances).topk(k, dim=-1, largest=False, sorted=True).values


def _certified(x: Tensor, y: _Columns, groups: int, k: int, hidden: _Hidden, workspace: Workspace) -> Tensor:
    """Candidates from a matrix product, their distances from direct differences, and a proof for each row."""
    dimension = x.shape[-1]
    centred = torch.sub(x, y.center, out=workspace.take("centred rows", *x.shape))
    square = _squared_norm(centred)
    product = workspace.take("product", *x.shape[:2], y.centred.shape[1])
    torch.baddbmm(y.square[:, None], centred, y.centred.mT, alpha=-2, out=product)
    # |x|^2 is the same along a row, so it is added to the few that are compared.
    chosen = smallest(hidden.hide(product), square, k + SPARE, groups, workspace)
    distances = _differences(x, y.points, chosen.columns, workspace).masked_fill_(~chosen.found, torch.inf)
    distances = sorted_rows(distances)[..., :k]
    kth = distances[..., -1]
    error = float32_bound(dimension) * (square.sqrt() + y.largest).square() + underflow(dimension)
    # Where numbers overflow or are NaN, the left side is NaN and nothing is proven.
    proven = (chosen.outside - error >= kth.square() * direct_slack(dimension)) | (kth == 0)
    return _search_rows(distances, ~proven, x, y.points, hidden)


def _search_rows(distances: Tensor, rows: Tensor, x: Tensor, y: Tensor, hidden: _Hidden) -> Tensor:
    """Replace the marked rows by a direct search."""
    k = distances.shape[-1]
    for batch in rows.any(dim=1).nonzero()[:, 0].tolist():
        marked = rows[batch].nonzero()[:, 0]
        distances[batch, marked] = _direct(x[batch, marked][None], y[batch][None], k, hidden.rows(batch, marked))[0]
    return distances


def _differences(x: Tensor, y: Tensor, columns: Tensor, workspace: Workspace) -> Tensor:
    """Distances from (b, n, d) to the chosen rows of (b, m, d), (b, n, c), from direct differences."""
    batches, m, d = y.shape
    flat = columns.clamp(max=m - 1)  # a group's last column may lie beyond the end
    if batches > 1:
        flat += torch.arange(0, batches * m, m, device=x.device)[:, None, None]
    chosen = workspace.take("chosen", columns.numel(), d)
    torch.index_select(y.reshape(-1, d), 0, flat.reshape(-1), out=chosen)
    differences = chosen.view(*columns.shape, d).sub_(x[:, :, None])
    distances: Tensor = torch.linalg.vector_norm(differences, dim=-1)
    return distances


def _squared_norm(points: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(points, dim=-1)
    return norm.square()


def _product_is_precise(device: torch.device) -> bool:
    """Whether a matrix product there is one of float32 throughout, for which the error bound holds."""
    try:
        return device.type in ("cpu", "cuda") and torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # torch's newer settings of precision are in use, which this function does not read
        return False


def _multiple(number: int, of: int) -> int:
    return -(-number // of) * of
