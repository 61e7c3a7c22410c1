"""The search in plain torch, tile by tile: exact for near-duplicates too, in memory linear in m.

A matrix product finds a few candidates for each point, whose distances are then computed from direct differences. The
product form |x|^2 - 2xy + |y|^2 cancels where points are close. So a bound on its rounding error decides for each point
whether an excluded column could be nearer. If it could, all distances of that point are computed directly. If torch may
compute products with less than float32 precision, all distances are computed directly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from revd.functional.search.equal_rows import distinct_rows
from revd.functional.search.reference_set import ReferenceSet
from revd.functional.search.reused_buffers import ReusedBuffers
from revd.functional.search.rounding import direct_slack, float32_bound, underflow
from revd.functional.search.smallest import select_smallest, sorted_rows

#: Products in one tile: 4 MiB on a CPU, which fits its cache, and 128 MiB on a GPU, which keeps it busy.
TILE_ELEMENTS = 1_048_576
TILE_ELEMENTS_ON_GPU = 33_554_432
#: The fewest rows of a tile, whatever the number of columns: a product of a few rows is slow.
TILE_ROWS = 256
#: Candidates beyond k. With more of them, fewer points must be searched directly.
SPARE = 3
#: The fewest pairs of rows for which a direct search looks for repeated ones first.
PAIRS_WORTH_A_LOOK = 2**12
#: Numbers in a line of the processor's cache.
CACHE_LINE = 16


def nearest_distances(x: Tensor, references: Sequence[ReferenceSet], k: int) -> list[Tensor]:
    """Distances from the points of x, (b, n, d), to their k nearest in each set, (b, n, k), ascending."""
    buffers = ReusedBuffers(x.device)
    return [_search(x, reference, k, buffers) for reference in references]


def _search(x: Tensor, reference: ReferenceSet, k: int, buffers: ReusedBuffers) -> Tensor:
    batches, n, d = x.shape
    m = reference.columns.shape[1]
    candidates = k + SPARE
    out = x.new_empty(batches, n, k)
    groups, size = _grouping(m, candidates)
    elements = TILE_ELEMENTS if x.device.type == "cpu" else TILE_ELEMENTS_ON_GPU
    row_step = max(TILE_ROWS, elements // max(1, groups * size, candidates * d))
    batch_step = max(1, row_step // max(n, 1))
    certify = m > candidates and _product_is_precise(x.device)
    for b in range(0, batches, batch_step):
        batch = slice(b, b + batch_step)
        columns = _CentredColumns.prepare(reference, batch, groups * size, buffers) if certify else None
        for r in range(0, n, row_step):
            rows = slice(r, min(r + row_step, n))
            hidden = _HiddenColumns.of_tile(reference, batch, rows)
            if columns is None:
                out[batch, rows] = _direct(x[batch, rows], reference.columns[batch], k, hidden)
            else:
                out[batch, rows] = _certified(x[batch, rows], columns, groups, k, hidden, buffers)
    return out


def _grouping(m: int, candidates: int) -> tuple[int, int]:
    """The number of groups and of columns in each, such that both selections are over similarly many values.

    Whole cache lines in each row keep the product fast.
    """
    size = 1 << max(0, math.floor(math.log2(max(m, 1) / candidates) / 2))
    return _multiple(-(-m // size), CACHE_LINE), size


class _CentredColumns(NamedTuple):
    """The columns of a batch: the points, the points minus their mean, and squared norms of these.

    The latter two are padded to `width` columns; padding has an infinite norm.
    """

    points: Tensor
    center: Tensor
    centred: Tensor
    square: Tensor
    largest: Tensor

    @classmethod
    def prepare(cls, reference: ReferenceSet, batch: slice, width: int, buffers: ReusedBuffers) -> _CentredColumns:
        points = reference.columns[batch]
        m = points.shape[1]
        hidden = None
        if reference.visible is None:
            center = points.mean(dim=1, keepdim=True)
        else:
            # Padding may hold any values; columns that no row sees must affect neither the mean nor the largest norm.
            counts = reference.visible[batch].amax(dim=1)[:, None, None]
            hidden = torch.arange(m, device=points.device)[:, None] >= counts
            points = points.masked_fill(hidden, 0.0)
            center = points.sum(dim=1, keepdim=True) / counts.clamp(min=1)
        centred = buffers.take("centred columns", len(points), width, points.shape[-1])
        torch.sub(points, center, out=centred[:, :m])
        centred[:, m:] = 0.0
        if hidden is not None:
            centred[:, :m].masked_fill_(hidden, 0.0)
        square = _squared_norm(centred)
        largest = square.amax(dim=-1, keepdim=True).sqrt()
        square[:, m:] = torch.inf
        return cls(points, center, centred, square, largest)


class _HiddenColumns(NamedTuple):
    """The columns that rows of a tile, (b, r), do not see: those from their limit on, and their own."""

    limits: Tensor | None
    own: Tensor | None

    @classmethod
    def of_tile(cls, reference: ReferenceSet, batch: slice, rows: slice) -> _HiddenColumns:
        limits = None if reference.visible is None else reference.visible[batch, rows]
        if reference.same_points:
            device = reference.columns.device
            own = torch.arange(rows.start, rows.stop, device=device).expand(len(reference.columns[batch]), -1)
            return cls(limits, own)
        return cls(limits, None if reference.own is None else reference.own[batch, rows])

    def hide(self, values: Tensor) -> Tensor:
        """Set values, (b, r, m), of hidden columns to inf."""
        if self.own is not None:
            values.scatter_(-1, self.own[..., None], torch.inf)
        if self.limits is not None:
            columns = torch.arange(values.shape[-1], device=values.device)
            values.masked_fill_(columns >= self.limits[..., None], torch.inf)
        return values

    def rows(self, batch: int, rows: Tensor) -> _HiddenColumns:
        """The hidden columns of some rows of one batch, (1, rows)."""
        return _HiddenColumns(*(None if part is None else part[batch, rows][None] for part in self))


def _direct(x: Tensor, y: Tensor, k: int, hidden: _HiddenColumns) -> Tensor:
    """The k nearest from direct differences with all columns; NaN never counts as near."""
    distances = _direct_distances(x, y)
    distances.masked_fill_(distances.isnan(), torch.inf)
    return hidden.hide(distances).topk(k, dim=-1, largest=False, sorted=True).values


def _certified(
    x: Tensor, y: _CentredColumns, groups: int, k: int, hidden: _HiddenColumns, buffers: ReusedBuffers
) -> Tensor:
    """The k nearest among candidates from a matrix product; rows without a proof are searched directly."""
    dimension = x.shape[-1]
    centred = torch.sub(x, y.center, out=buffers.take("centred rows", *x.shape))
    square = _squared_norm(centred)
    product = buffers.take("product", *x.shape[:2], y.centred.shape[1])
    torch.baddbmm(y.square[:, None], centred, y.centred.mT, alpha=-2, out=product)
    # |x|^2 is the same along a row, so it is added only to the few values that are compared.
    chosen = select_smallest(hidden.hide(product), square, k + SPARE, groups, buffers)
    distances = _differences(x, y.points, chosen.columns, buffers).masked_fill_(~chosen.found, torch.inf)
    distances = sorted_rows(distances)[..., :k]
    kth = distances[..., -1]
    error = float32_bound(dimension) * (square.sqrt() + y.largest).square() + underflow(dimension)
    # If numbers overflow or are NaN, the left side is NaN and the row counts as not proven.
    proven = (chosen.outside - error >= kth.square() * direct_slack(dimension)) | (kth == 0)
    return _search_rows_directly(distances, ~proven, x, y.points, hidden)


def _search_rows_directly(distances: Tensor, rows: Tensor, x: Tensor, y: Tensor, hidden: _HiddenColumns) -> Tensor:
    """Replace the distances of the marked rows by those of a direct search."""
    k = distances.shape[-1]
    for batch in rows.any(dim=1).nonzero()[:, 0].tolist():
        marked = rows[batch].nonzero()[:, 0]
        distances[batch, marked] = _direct(x[batch, marked][None], y[batch][None], k, hidden.rows(batch, marked))[0]
    return distances


def _direct_distances(x: Tensor, y: Tensor) -> Tensor:
    """Distances from direct differences, (b, n, d) and (b, m, d) to (b, n, m)."""
    if len(x) > 1 or x.device.type != "cpu" or x.shape[1] * y.shape[1] < PAIRS_WORTH_A_LOOK:
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    # Proofs mostly fail where states are repeated: then the neighbours in and outside the selection are equally far.
    (rows, of_row), (columns, of_column) = distinct_rows([x[0]]), distinct_rows([y[0]])
    between = torch.cdist(x[:, rows], y[:, columns], compute_mode="donot_use_mm_for_euclid_dist")
    return between[:, of_row][:, :, of_column]


def _differences(x: Tensor, y: Tensor, columns: Tensor, buffers: ReusedBuffers) -> Tensor:
    """Distances from (b, n, d) to the chosen rows of (b, m, d), (b, n, c), from direct differences."""
    batches, m, d = y.shape
    flat = columns.clamp(max=m - 1)  # the last column of a group may lie beyond the end
    if batches > 1:
        flat += torch.arange(0, batches * m, m, device=x.device)[:, None, None]
    chosen = buffers.take("chosen", columns.numel(), d)
    torch.index_select(y.reshape(-1, d), 0, flat.reshape(-1), out=chosen)
    differences = chosen.view(*columns.shape, d).sub_(x[:, :, None])
    distances: Tensor = torch.linalg.vector_norm(differences, dim=-1)
    return distances


def _squared_norm(points: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(points, dim=-1)
    return norm.square()


def _product_is_precise(device: torch.device) -> bool:
    """Whether matrix products there use float32 throughout, for which the error bound holds."""
    try:
        return device.type in ("cpu", "cuda") and torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # torch's newer precision settings are in use, which this function does not read
        return False


def _multiple(number: int, of: int) -> int:
    return -(-number // of) * of
