"""The search among states in order of time of which many repeat, on a CPU.

Distances are computed between the distinct states only. How often each was visited so far then says how many of the k
nearest it is.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from revd.functional.search.equal_rows import distinct_rows

#: The largest share of distinct points with which this search takes less time than that among all.
LARGEST_SHARE = 0.5
#: The most numbers in a table of points and distinct states; above it, the search in tiles takes less memory.
LARGEST_TABLE = 2**22
#: Batches are padded to the one with the most distinct points, by at most this factor.
LARGEST_PADDING = 8


class Repeated(NamedTuple):
    """The distinct points of every batch.

    Attributes:
        points: (b, u, d), in order of their first occurrence, with zeros as padding.
        counts: (b,), how many there are.
        numbers: (b, n), which of them each point is.
    """

    points: Tensor
    counts: Tensor
    numbers: Tensor

    @classmethod
    def of(cls, points: Tensor, *, most: int) -> Repeated | None:
        """Merge equal points of each batch, (b, n, d); None if a batch has more than `most` distinct ones."""
        b, n, d = points.shape
        batches, flat = torch.arange(b, device="cpu").repeat_interleave(n), points.reshape(-1, d)
        rows, places = distinct_rows([flat, batches])
        counts = batches[rows].bincount(minlength=b)
        if int(counts.max()) > most or b * int(counts.max()) > LARGEST_PADDING * len(rows):
            return None
        starts = counts.cumsum(0) - counts
        merged = points.new_zeros(b, int(counts.max()), d)
        merged[batches[rows], torch.arange(len(rows), device="cpu") - starts[batches[rows]]] = flat[rows]
        return cls(merged, counts, places.view(b, n) - starts[:, None])


def repeated_distances(x: Tensor, y: Tensor, visible: Tensor, k: int) -> Tensor | None:
    """Distances from each point of x to its k nearest among the first `visible` rows of y.

    Args:
        x: (b, p, d).
        y: (b, m, d).
        visible: (b, p), which must not fall from a point to the next, except to 0.
        k: Number of neighbours.

    Returns:
        (b, p, k) ascending; missing neighbours are inf. None if another search must do it: `visible` falls, too few
        points of x repeat, there are too many states, or one batch has far more of them than the others.
    """
    most = LARGEST_SHARE * visible.numel()
    # There are at least as many distinct points as distinct first numbers, which are found in less time.
    if len(x[..., 0].unique()) > most:
        return None
    limits = visible.cummax(dim=1).values
    if not ((visible == limits) | (visible == 0)).all():
        return None
    queries = Repeated.of(x, most=x.shape[1])
    if queries is None or int(queries.counts.sum()) > most:
        return None
    states = Repeated.of(y, most=LARGEST_TABLE // visible.numel())
    if states is None:
        return None
    distances, nearest = _pairs(queries, states).sort(dim=-1)
    # The columns of each point are now the states, from the nearest to the farthest.
    visits = _visits(states, limits).gather(2, _take_rows(nearest, queries.numbers))
    wanted = torch.arange(1, k + 1, dtype=torch.int32, device="cpu").expand(*visible.shape, k).contiguous()
    places = torch.searchsorted(visits.cumsum(dim=2, dtype=torch.int32), wanted)
    missing = (places == visits.shape[2]) | (visible == 0)[..., None]
    found = _take_rows(distances, queries.numbers).gather(2, places.clamp(max=visits.shape[2] - 1))
    return found.masked_fill_(missing, torch.inf)


def _pairs(queries: Repeated, states: Repeated) -> Tensor:
    """Distances between the distinct points, (b, q, u), from direct differences; NaN never counts as near."""
    x, y = queries.points, states.points
    distances = x.new_full((len(x), x.shape[1], y.shape[1]), torch.inf)
    # One batch at a time, since all together would compute the padding too.
    for batch, sizes in enumerate(zip(queries.counts.tolist(), states.counts.tolist(), strict=True)):
        of, to = x[batch, : sizes[0]], y[batch, : sizes[1]]
        distances[batch, : len(of), : len(to)] = torch.cdist(of, to, compute_mode="donot_use_mm_for_euclid_dist")
    return distances.masked_fill_(distances.isnan(), torch.inf)


def _visits(states: Repeated, limits: Tensor) -> Tensor:
    """How many of the first `limits` rows, (b, p) ascending, are each distinct state, (b, p, u)."""
    (b, p), (m, u) = limits.shape, (states.numbers.shape[1], states.points.shape[1])
    # The first point that sees each row; p if none does.
    since = torch.searchsorted(limits.contiguous(), torch.arange(m, device="cpu").expand(b, m).contiguous(), right=True)
    new = torch.zeros(b, (p + 1) * u, dtype=torch.int32, device="cpu")
    new.scatter_add_(1, since * u + states.numbers, torch.ones_like(since, dtype=torch.int32))
    return new.view(b, p + 1, u)[:, :p].cumsum(dim=1, dtype=torch.int32)


def _take_rows(values: Tensor, numbers: Tensor) -> Tensor:
    """Take a row for each number, (b, q, u) and (b, p) to (b, p, u)."""
    return values.gather(1, numbers[..., None].expand(-1, -1, values.shape[2]))
