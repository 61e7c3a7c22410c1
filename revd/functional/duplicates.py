"""Exact copies among states: the distinct ones, and how often each occurs."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from torch import Tensor

from revd.functional.search.smallest import sorted_rows

#: Numbers that are hashed at once on a CPU.
NUMBERS_PER_CHUNK = 2**15
#: The hash part of the keys of padded rows, which come last.
_LAST = 2**63 - 1


class Distinct(NamedTuple):
    """The distinct states among the rows of a batch, in order of their *last* occurrence.

    Attributes:
        rows: (b, n), the row of each distinct state's last occurrence; 0 beyond `counts`.
        counts: (b,), on the host: how many distinct states there are.
        numbers: (b, n), the number of each row's distinct state; 0 for padding.
        copies: (b, n), how many rows equal each row, itself included; 1 for padding.
    """

    rows: Tensor
    counts: Tensor
    numbers: Tensor
    copies: Tensor


def distinct_states(*batches: tuple[Tensor, Tensor]) -> list[Distinct]:
    """Find the rows of every batch that are equal in all numbers; 0.0 equals -0.0.

    Rows are sorted by a hash of their numbers, and neighbours of equal hash are compared. If unequal rows share a hash,
    all is done again with another one. So the result is always exact, and the host waits for the device once.

    Args:
        batches: Pairs of states, (b, n, d) float32 with n of at least 1, and lengths, (b,) on the host: only the
            first so many rows count.
    """
    for seed in itertools.count():
        found = [_group(states, lengths, seed) for states, lengths in batches]
        numbers = torch.cat([part for groups in found for part in (groups.collision, groups.is_last.sum(dim=1))]).cpu()
        parts = iter(numbers.split([size for states, _ in batches for size in (1, len(states))]))
        collisions, counts = zip(*((bool(next(parts)), next(parts)) for _ in batches), strict=True)
        if not any(collisions):
            return [_collect(*pair) for pair in zip(found, counts, strict=True)]
    raise AssertionError("the seeds never end")


def share_among_copies(pay: Tensor, copies: Tensor | None) -> Tensor:
    """Share a state's pay among its copies: r / sqrt(copies). A state that is alone keeps all of it, to the last bit.

    Args:
        pay: r, any shape.
        copies: How many copies there are, itself included, of the same shape; None if no state is repeated.
    """
    return pay if copies is None else pay / copies.sqrt()


class _Groups(NamedTuple):
    """Rows sorted so that equal ones stand together, each group in order of the rows.

    Attributes:
        order: (b, n), the row at each place.
        is_valid: (b, n), False for padding.
        is_first: (b, n), whether a group begins at the place.
        is_last: (b, n), whether a group of valid rows ends there.
        collision: (1,), whether unequal rows have the same hash; then the groups may be wrong.
    """

    order: Tensor
    is_valid: Tensor
    is_first: Tensor
    is_last: Tensor
    collision: Tensor


def _group(states: Tensor, lengths: Tensor, seed: int) -> _Groups:
    n = states.shape[1]
    rows = torch.arange(n, device=states.device)
    lengths = lengths.to(states.device, non_blocking=True)[:, None]
    # The row takes the place of the hash's last bits, which are its weakest. One sort then gives both.
    bits = max(n - 1, 1).bit_length()
    keys = _hashes(states, seed).masked_fill_(rows >= lengths, _LAST)
    keys = sorted_rows(keys.bitwise_and_(-1 << bits).bitwise_or_(rows))
    order = keys & ~(-1 << bits)
    is_valid = order < lengths
    same_hash = ((keys[:, 1:] >> bits) == (keys[:, :-1] >> bits)) & is_valid[:, 1:]
    same = same_hash & _equal_to_next(states, order, same_hash)
    edge = torch.ones_like(is_valid[:, :1])
    is_last = torch.cat([~same, edge], dim=1) & is_valid
    return _Groups(order, is_valid, torch.cat([edge, ~same], dim=1), is_last, (same_hash & ~same).any().reshape(1))


def _equal_to_next(states: Tensor, order: Tensor, candidates: Tensor) -> Tensor:
    """Whether each row but the last, in that order, equals the next, (b, n - 1); False where it is no candidate."""
    b, n, d = states.shape
    rows = order + torch.arange(0, b * n, n, device=order.device)[:, None]
    # On a GPU, comparing all takes less time than asking which are candidates.
    chosen = candidates.flatten().nonzero()[:, 0] if states.device.type == "cpu" else ...
    flat = states.reshape(-1, d)
    pairs = (_words(flat.index_select(0, side.flatten()[chosen])) for side in (rows[:, :-1], rows[:, 1:]))
    found = torch.zeros_like(candidates).flatten()
    found[chosen] = torch.eq(*pairs).all(dim=-1)
    return found.view_as(candidates)


def _collect(groups: _Groups, counts: Tensor) -> Distinct:
    """Count the members of each group, and number the groups in order of their last rows."""
    order, is_valid, is_first, is_last, _ = groups
    n = order.shape[1]
    places = torch.arange(n, device=order.device).expand_as(order)
    first = torch.where(is_first, places, 0).cummax(dim=1).values
    last = torch.where(is_last, places, n - 1).flip(1).cummin(dim=1).values.flip(1)
    # Back from the sorted places to the rows.
    ends = torch.zeros_like(is_last).scatter_(1, order, is_last)
    ranks = ends.cumsum(dim=1) - 1
    numbers = torch.zeros_like(order).scatter_(1, order, ranks.gather(1, order.gather(1, last)))
    copies = torch.ones_like(order).scatter_(1, order, last - first + 1)
    # One column more takes what belongs nowhere.
    rows = order.new_zeros(len(order), n + 1).scatter_(1, torch.where(ends, ranks, n), places)[:, :n]
    padding = torch.zeros_like(is_valid).scatter_(1, order, ~is_valid)
    return Distinct(rows, counts, numbers.masked_fill_(padding, 0), copies.masked_fill_(padding, 1))


def _words(numbers: Tensor) -> Tensor:
    """The bits of each number as an integer; those of -0.0 are those of 0.0."""
    return (numbers + 0.0).view(torch.int32)


def _hashes(states: Tensor, seed: int) -> Tensor:
    """A number for each row, (b, n): its words times random factors, summed modulo 2^64, in which no order matters."""
    d = states.shape[-1]
    factors = _factors(d, seed).to(states.device, non_blocking=True)
    # Small chunks stay in a CPU's cache, and need no new pages of memory.
    size = max(1, NUMBERS_PER_CHUNK // d) if states.device.type == "cpu" else states.numel()
    chunks = states.reshape(-1, d).split(size)
    return torch.cat([_words(chunk).long().mul_(factors).sum(dim=-1) for chunk in chunks]).view(states.shape[:2])


def _factors(count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-(2**63), 2**63 - 1, (count,), generator=generator)
