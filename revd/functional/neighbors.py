"""Exact k-nearest-neighbour distances, as the rewards ask for them.

All searches end in `revd.functional.search.dispatch`, which chooses how distances are computed. Nothing here is
differentiable.
"""

from __future__ import annotations

import torch
from torch import Tensor

from revd.functional.search.dispatch import nearest as search
from revd.functional.search.reference_set import Target

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
            Below 1e-19 their squares are too small for it, and they lose digits.
        y: Where to look for neighbours, (..., m, d) with the batch dimensions of `x`. None searches `x` itself and
            leaves each point's own entry out; a duplicate of it in another row is a neighbour at distance 0.
        k: Number of neighbours.
        x_lengths: (...), only the first so many rows of `x` count (ragged batches).
        y_lengths: The same for `y`.

    Returns:
        (..., n, k). Missing neighbours and padded rows are inf.

    Raises:
        ValueError: k exceeds what even a full row could offer (n - 1 without `y`, m with it), or shapes disagree.
    """
    x = _points("x", x)
    if y is None and y_lengths is not None:
        raise ValueError("y_lengths was given without y; use x_lengths for a search among x itself")
    counts = _lengths("x_lengths", x_lengths, x)
    if y is None:
        _check_k(k, x.shape[-2] - 1, "points of x besides each itself")
        target = _within(x, counts)
    else:
        y = _points("y", y, like=x)
        _check_k(k, y.shape[-2], "points of y")
        target = _among(y, _lengths("y_lengths", y_lengths, y), x, counts)
    return search(_flat(x), [target], k)[0].reshape(*x.shape[:-1], k)


def episode_distances(
    current: Tensor,
    previous: Tensor,
    *,
    k: int,
    current_lengths: Tensor | None = None,
    previous_lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Both searches of an episodic reward: within the current episode and in the previous one.

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
    targets = [_within(current, counts), _among(previous, previous_counts, current, counts)]
    own, other = search(_flat(current), targets, k)
    shape = (*current.shape[:-1], k)
    return own.reshape(shape), other.reshape(shape)


def visible_distances(x: Tensor, y: Tensor, *, k: int, visible: Tensor, own: Tensor | None = None) -> Tensor:
    """Distances to the k nearest among the first `visible` rows of `y`, a number for every point of `x`.

    With what came before it visible to each state, this is the causal search of episodic pseudo-counts; with all rows
    visible and `own`, the search of an episode's latest states among all of it.

    Args:
        x: Points, (..., n, d).
        y: States in order of time, (..., m, d).
        k: Number of neighbours; may exceed m.
        visible: (..., n), how many leading rows of `y` each point sees.
        own: (..., n), the row of `y` that is the point itself and does not count; None where there is none.

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
        distances = search(_flat(x), [Target(_flat(y), visible=limits, own=itself)], found)[0]
        nearest[..., :found] = distances.reshape(*x.shape[:-1], found)
    return nearest


def _within(x: Tensor, counts: Tensor | None) -> Target:
    """Among the points themselves, of which the first `counts` of each batch count."""
    return Target(_flat(x), visible=_visible(counts, counts, x.shape[-2], x.shape[-2], x.device), within=True)


def _among(y: Tensor, counts: Tensor | None, x: Tensor, x_counts: Tensor | None) -> Target:
    """Among other points, of which the first `counts` of each batch count."""
    return Target(_flat(y), visible=_visible(x_counts, counts, x.shape[-2], y.shape[-2], x.device))


def _visible(x_counts: Tensor | None, y_counts: Tensor | None, n: int, m: int, device: torch.device) -> Tensor | None:
    """Columns that each row may see, (b, n): none for padded rows, the valid ones of y for the others."""
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
    """`points` as float32 (..., n, d), checked against the batch and dimension of `like`, the argument `of`."""
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
    """`lengths` flattened to (b,), checked against the points they describe."""
    if lengths is None:
        return None
    lengths = torch.as_tensor(lengths, device=points.device)
    if lengths.shape != points.shape[:-2] or lengths.dtype not in _INTEGERS:
        raise ValueError(
            f"{name} must be integers of shape {tuple(points.shape[:-2])}, got {lengths.dtype} {tuple(lengths.shape)}"
        )
    shortest, _ = _check_range(name, lengths, points.shape[-2])
    # Where every row counts, nothing needs to be hidden.
    return None if shortest == points.shape[-2] else lengths.reshape(-1)


def _per_point(name: str, numbers: Tensor, points: Tensor, *, largest: int) -> Tensor:
    """Numbers of the points' rows, flattened to (b, n), checked: what is out of range would be read out of bounds."""
    if numbers.shape != points.shape[:-1] or numbers.dtype not in _INTEGERS:
        shape = tuple(points.shape[:-1])
        raise ValueError(f"{name} must be integers of shape {shape}, got {numbers.dtype} {tuple(numbers.shape)}")
    _check_range(name, numbers, largest)
    return numbers.reshape(-1, points.shape[-2]).to(points.device)


def _check_range(name: str, numbers: Tensor, largest: int) -> tuple[int, int]:
    """The smallest and the largest of the numbers, which must not leave 0 … largest."""
    # Both in one tensor, so that a GPU is waited for once.
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
    """(b, n, d), whatever the batch dimensions are."""
    return points[None] if points.ndim == 2 else points.flatten(0, -3)
