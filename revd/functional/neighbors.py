"""Exact k-nearest-neighbour distances.

These functions check their arguments and call `revd.functional.search`. None of them is differentiable.
"""

from __future__ import annotations

import torch
from torch import Tensor

from revd.functional.search import ReferenceSet, nearest_distances, repeated_distances

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def neighbor_distances(
    x: Tensor,
    y: Tensor | None = None,
    *,
    k: int,
    x_lengths: Tensor | None = None,
    y_lengths: Tensor | None = None,
) -> Tensor:
    """Euclidean distances from each point to its k nearest neighbours, ascending.

    Args:
        x: Points, (..., n, d). Any floating type; rounded to float32, in which distances are computed and returned.
            Distances below 1e-19 lose digits, since their squares underflow.
        y: Points to search, (..., m, d) with the batch dimensions of `x`. None searches `x` itself without each
            point's own entry; a duplicate in another row is a neighbour at distance 0.
        k: Number of neighbours.
        x_lengths: (...), how many leading rows of `x` count (ragged batches).
        y_lengths: The same for `y`.

    Returns:
        (..., n, k). Missing neighbours and padded rows are inf.

    Raises:
        ValueError: k exceeds the neighbours of a full row (n - 1 without `y`, m with it), or shapes disagree.
    """
    x = _points("x", x)
    if y is None and y_lengths is not None:
        raise ValueError("y_lengths was given without y; use x_lengths for a search among x itself")
    counts = _lengths("x_lengths", x_lengths, x)
    if y is None:
        _check_k(k, x.shape[-2] - 1, "points of x besides each itself")
        reference = _same_points(x, counts)
    else:
        y = _points("y", y, like=x)
        _check_k(k, y.shape[-2], "points of y")
        reference = _other_points(y, _lengths("y_lengths", y_lengths, y), x, counts)
    return nearest_distances(_flat(x), [reference], k)[0].reshape(*x.shape[:-1], k)


def episode_distances(
    current: Tensor,
    previous: Tensor,
    *,
    k: int,
    current_lengths: Tensor | None = None,
    previous_lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Search for neighbours within the current episode and in the previous one.

    Args:
        current: States of the current episode, (..., n, d).
        previous: States of the previous episode, (..., m, d).
        k: Number of neighbours; at most n - 1 and m.
        current_lengths: (...), rows of `current` that count.
        previous_lengths: (...), rows of `previous` that count; 0 where there is no previous episode.

    Returns:
        (own, previous), both (..., n, k) and ascending: `own[..., j - 1]` is mu_j (each state's own entry left out),
        `previous[..., j - 1]` is nu_j (nothing left out: there is no self in another episode).
    """
    current = _points("current", current)
    previous = _points("previous", previous, like=current, of="current")
    _check_k(k, current.shape[-2] - 1, "states in current besides each itself")
    _check_k(k, previous.shape[-2], "states in previous")
    counts = _lengths("current_lengths", current_lengths, current)
    previous_counts = _lengths("previous_lengths", previous_lengths, previous)
    references = [_same_points(current, counts), _other_points(previous, previous_counts, current, counts)]
    own, other = nearest_distances(_flat(current), references, k)
    shape = (*current.shape[:-1], k)
    return own.reshape(shape), other.reshape(shape)


def visible_distances(x: Tensor, y: Tensor, *, k: int, visible: Tensor, own: Tensor | None = None) -> Tensor:
    """Distances from each point of `x` to its k nearest among the first `visible` rows of `y`.

    If each state sees the earlier ones, this is the causal search of episodic pseudo-counts. If it sees all rows but
    its `own`, it is the search of an episode's latest states among the whole episode.

    Args:
        x: Points, (..., n, d).
        y: States in order of time, (..., m, d).
        k: Number of neighbours; may exceed m.
        visible: (..., n), how many leading rows of `y` each point sees.
        own: (..., n), the row of `y` that is the point itself and does not count; None if the points are not in `y`.

    Returns:
        (..., n, k) ascending; missing neighbours are inf.
    """
    x = _points("x", x)
    y = _points("y", y, like=x)
    _check_count(k)
    found = min(k, y.shape[-2])
    limits = _per_point("visible", visible, x, largest=y.shape[-2])
    itself = None if own is None else _per_point("own", own, x, largest=y.shape[-2] - 1)
    nearest = x.new_full((*x.shape[:-1], k), torch.inf)
    if found > 0:
        distances = None
        if itself is None and x.device.type == "cpu" and x.numel() > 0:
            distances = repeated_distances(_flat(x), _flat(y), limits, found)
        if distances is None:
            distances = nearest_distances(_flat(x), [ReferenceSet(_flat(y), visible=limits, own=itself)], found)[0]
        nearest[..., :found] = distances.reshape(*x.shape[:-1], found)
    return nearest


def _same_points(x: Tensor, counts: Tensor | None) -> ReferenceSet:
    """The points themselves, of which the first `counts` of each batch count."""
    return ReferenceSet(
        _flat(x), visible=_visible(counts, counts, x.shape[-2], x.shape[-2], x.device), same_points=True
    )


def _other_points(y: Tensor, counts: Tensor | None, x: Tensor, x_counts: Tensor | None) -> ReferenceSet:
    """Other points, of which the first `counts` of each batch count."""
    return ReferenceSet(_flat(y), visible=_visible(x_counts, counts, x.shape[-2], y.shape[-2], x.device))


def _visible(x_counts: Tensor | None, y_counts: Tensor | None, n: int, m: int, device: torch.device) -> Tensor | None:
    """How many columns each row sees, (b, n): 0 for padded rows, the valid ones of y for the others."""
    if x_counts is None and y_counts is None:
        return None
    counts = x_counts if x_counts is not None else y_counts
    assert counts is not None
    columns = y_counts if y_counts is not None else torch.full_like(counts, m)
    visible = columns[:, None].expand(-1, n)
    if x_counts is not None:
        visible = visible.masked_fill(torch.arange(n, device=device) >= x_counts[:, None], 0)
    return visible


def _points(name: str, points: Tensor, like: Tensor | None = None, of: str = "x") -> Tensor:
    """Convert to float32 (..., n, d), and check batch and dimension against `like`, the argument named `of`."""
    points = torch.as_tensor(points)
    if points.ndim < 2 or points.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., n, d) with d of at least 1, got {tuple(points.shape)}")
    if points.is_complex():
        raise ValueError(f"{name} must be real, got {points.dtype}")
    if like is not None and (points.shape[:-2], points.shape[-1]) != (like.shape[:-2], like.shape[-1]):
        raise ValueError(
            f"{name} must share batch dimensions and d with {of}, which is {tuple(like.shape)}; "
            f"got {tuple(points.shape)}"
        )
    return points.detach().to(torch.float32)


def _lengths(name: str, lengths: Tensor | None, points: Tensor) -> Tensor | None:
    """Flatten lengths to (b,) and check them against their points; None if every row counts."""
    if lengths is None:
        return None
    lengths = torch.as_tensor(lengths)
    if lengths.shape != points.shape[:-2] or lengths.dtype not in _INTEGERS:
        raise ValueError(
            f"{name} must be integers of shape {tuple(points.shape[:-2])}, got {lengths.dtype} {tuple(lengths.shape)}"
        )
    shortest, _ = _check_range(name, lengths, points.shape[-2])
    # Checked where they are: lengths on the host are sent to a GPU without waiting for it.
    return None if shortest == points.shape[-2] else lengths.reshape(-1).to(points.device, non_blocking=True)


def _per_point(name: str, numbers: Tensor, points: Tensor, *, largest: int) -> Tensor:
    """Flatten row numbers or counts of points to (b, n) and check them: larger ones would be read out of bounds."""
    if numbers.shape != points.shape[:-1] or numbers.dtype not in _INTEGERS:
        shape = tuple(points.shape[:-1])
        raise ValueError(f"{name} must be integers of shape {shape}, got {numbers.dtype} {tuple(numbers.shape)}")
    _check_range(name, numbers, largest)
    return numbers.reshape(-1, points.shape[-2]).to(points.device)


def _check_range(name: str, numbers: Tensor, largest: int) -> tuple[int, int]:
    """The smallest and the largest number, which must lie in 0 … largest."""
    # One tensor for both, so that the host waits for a GPU once.
    least, most = torch.stack(numbers.aminmax()).tolist() if numbers.numel() else (0, 0)
    if least < 0 or most > largest:
        raise ValueError(f"{name} must lie in 0 … {largest}, got {least} … {most}")
    return least, most


def _check_k(k: int, available: int, what: str) -> None:
    _check_count(k)
    if k > available:
        raise ValueError(f"k = {k} neighbours were asked for, but there are only {max(available, 0)} {what}")


def _check_count(k: int) -> None:
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k must be an integer of at least 1, got {k!r}")


def _flat(points: Tensor) -> Tensor:
    """Flatten the batch dimensions: (b, n, d)."""
    return points[None] if points.ndim == 2 else points.flatten(0, -3)
