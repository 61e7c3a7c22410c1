"""The search behind every neighbour function: exact on near-duplicates too, in memory linear in m.

On the CPU a matrix product finds a few candidates for each point, whose distances are then computed from direct
differences. The product form |x|^2 - 2xy + |y|^2 cancels where points are close, so a bound on its rounding error
decides for each point whether a column that was left out could have been nearer; where it could, all its distances
are computed directly. Elsewhere, and where the product is allowed less than float32 precision, everything is computed
directly.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

#: Numbers held at once by one search (float32, so 512 KiB, which a processor's cache holds) …
TILE_ELEMENTS = 131_072
#: … but at least so many rows against all columns, since a product of a few rows is slow.
TILE_ROWS = 64
#: Candidates beyond the k asked for: the more, the fewer points must be searched directly.
SPARE = 3
#: Columns in a group: the k smallest of a row lie in the k groups with the smallest minima.
GROUP = 32

_ROUNDING = torch.finfo(torch.float32).eps / 2


def nearest(x: Tensor, y: Tensor, k: int, *, visible: Tensor | None = None, own: Tensor | None = None) -> Tensor:
    """Distances from (b, n, d) to the k nearest of (b, m, d), ascending, tile by tile.

    Point i of batch b sees columns 0 … visible[b, i] - 1 (all of them when None), less its own, which is own[b, i].
    """
    # Autocast would compute the product in half precision, of which the error bound knows nothing.
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        return _by_tiles(x, y, k, visible, own)


def _by_tiles(x: Tensor, y: Tensor, k: int, visible: Tensor | None, own: Tensor | None) -> Tensor:
    batches, n, d = x.shape
    m = y.shape[1]
    out = x.new_empty(batches, n, k)
    row_size = max(1, m, (k + SPARE) * d)
    row_step = max(TILE_ROWS, TILE_ELEMENTS // row_size)
    batch_step = max(1, row_step // max(n, 1))
    certify = _product_is_precise(x) and m > k + SPARE + (own is not None)
    for b in range(0, batches, batch_step):
        batch = slice(b, b + batch_step)
        columns = _Columns.of(y[batch], None if visible is None else visible[batch]) if certify else None
        for r in range(0, n, row_step):
            rows = slice(r, r + row_step)
            hidden = _Hidden(
                None if visible is None else visible[batch, rows], None if own is None else own[batch, rows]
            )
            if columns is None:
                out[batch, rows] = _direct(x[batch, rows], y[batch], k, hidden)
            else:
                out[batch, rows] = _certified(x[batch, rows], columns, k, hidden)
    return out


class _Columns(NamedTuple):
    """What all rows of a batch are compared with: points, and the same about their mean, with squared norms."""

    points: Tensor
    center: Tensor
    centred: Tensor
    square: Tensor

    @classmethod
    def of(cls, points: Tensor, visible: Tensor | None) -> _Columns:
        if visible is not None:
            # Padding may hold anything; columns that no row sees must not reach the mean.
            hidden = torch.arange(points.shape[1], device=points.device) >= visible.amax(dim=1, keepdim=True)
            points = points.masked_fill(hidden[..., None], 0.0)
        center = points.mean(dim=1, keepdim=True)
        centred = points - center
        return cls(points, center, centred, centred.square().sum(dim=-1))


class _Hidden(NamedTuple):
    """What the rows of a tile, (b, r), may not see: columns from their limit on, and their own."""

    limits: Tensor | None
    own: Tensor | None

    def hide(self, values: Tensor) -> Tensor:
        """Set to inf in (b, r, m) what a row may not see."""
        if self.own is not None:
            values.scatter_(-1, self.own[..., None], torch.inf)
        if self.limits is not None:
            columns = torch.arange(values.shape[-1], device=values.device)
            values.masked_fill_(columns >= self.limits[..., None], torch.inf)
        return values

    def covers(self, columns: Tensor) -> Tensor:
        """Which of the chosen columns, (b, r, c), their rows may not see."""
        covered = torch.zeros_like(columns, dtype=torch.bool)
        if self.own is not None:
            covered |= columns == self.own[..., None]
        if self.limits is not None:
            covered |= columns >= self.limits[..., None]
        return covered

    def rows(self, batch: int, rows: Tensor) -> _Hidden:
        """The same for some rows of one batch, (1, rows)."""
        return _Hidden(*(None if part is None else part[batch, rows][None] for part in self))


def _direct(x: Tensor, y: Tensor, k: int, hidden: _Hidden) -> Tensor:
    """All distances from direct differences."""
    distances = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    return hidden.hide(distances).topk(k, dim=-1, largest=False, sorted=True).values


def _certified(x: Tensor, y: _Columns, k: int, hidden: _Hidden) -> Tensor:
    """Candidates from a matrix product, their distances from direct differences, and a proof for each row."""
    dimension = x.shape[-1]
    centred = x - y.center
    square = centred.square().sum(dim=-1)
    # |x|^2 is the same along a row, so candidates are found without it.
    product = torch.baddbmm(y.square[:, None], centred, y.centred.mT, alpha=-2)
    found, columns = _smallest(hidden.hide(product), k + SPARE)
    covered = hidden.covers(columns)
    distances = _differences(x, y.points, columns).masked_fill_(covered, torch.inf)
    distances = distances.topk(k, dim=-1, largest=False, sorted=True).values
    # No column left out is nearer than this.
    error = _error_bound(square, y.square, dimension)
    outside = found.amax(dim=-1) + square - error
    proven = outside >= distances[..., -1].square() * (1 + (dimension + 4) * _ROUNDING)
    # A hidden column among the candidates: every visible one is among them too.
    proven |= covered.any(dim=-1)
    # Where numbers overflow or are NaN, the product says nothing.
    proven &= (square + error).isfinite()
    return _search_rows(distances, ~proven, x, y.points, hidden)


def _error_bound(x_square: Tensor, y_square: Tensor, dimension: int) -> Tensor:
    """How far the product form may be from the squared distance of any column, (b, rows).

    A dot product of length d in float32 is off by at most d u |x| |y| (u the unit roundoff, with or without fused
    multiply-add); the two squared norms, the three sums and the centring add the rest. 1.01 covers second-order terms.
    """
    size = x_square.sqrt() + y_square.amax(dim=-1, keepdim=True).sqrt()
    bound: Tensor = 1.01 * (dimension + 8) * _ROUNDING * size.square()
    return bound


def _search_rows(distances: Tensor, rows: Tensor, x: Tensor, y: Tensor, hidden: _Hidden) -> Tensor:
    """Replace the marked rows by a direct search."""
    k = distances.shape[-1]
    for batch in rows.any(dim=1).nonzero()[:, 0].tolist():
        marked = rows[batch].nonzero()[:, 0]
        distances[batch, marked] = _direct(x[batch, marked][None], y[batch][None], k, hidden.rows(batch, marked))[0]
    return distances


def _differences(x: Tensor, y: Tensor, columns: Tensor) -> Tensor:
    """Distances from (b, n, d) to the chosen rows of (b, m, d), (b, n, c), from direct differences."""
    batches, _, d = x.shape
    offsets = torch.arange(batches, device=x.device)[:, None, None] * y.shape[1]
    chosen = y.reshape(-1, d).index_select(0, (columns + offsets).reshape(-1))
    distances: Tensor = torch.linalg.vector_norm(chosen.view(*columns.shape, d) - x[:, :, None], dim=-1)
    return distances


def _smallest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k smallest of each row and their columns, in any order."""
    groups = values.shape[-1] // GROUP
    if groups < 2 * k:
        found = values.topk(k, dim=-1, largest=False, sorted=False)
        return found.values, found.indices
    grouped = values[..., : groups * GROUP].unflatten(-1, (groups, GROUP))
    best = grouped.amin(dim=-1).topk(k, dim=-1, largest=False, sorted=False).indices
    columns = best[..., None] * GROUP + torch.arange(GROUP, device=values.device)
    rest = torch.arange(groups * GROUP, values.shape[-1], device=values.device)
    columns = torch.cat([columns.flatten(-2), rest.expand(*best.shape[:-1], -1)], dim=-1)
    found = values.gather(-1, columns).topk(k, dim=-1, largest=False, sorted=False)
    return found.values, columns.gather(-1, found.indices)


def _product_is_precise(x: Tensor) -> bool:
    """Whether a matrix product here is one of float32 throughout, for which the error bound holds."""
    try:
        return x.device.type == "cpu" and torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # torch's newer settings of precision are in use, which this function does not read
        return False
