"""Equal rows of tensors on a CPU: a random projection finds the candidates, a comparison decides.

So rows that are said to be equal are. A repeat is missed where different rows share a projection, which is rare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: Numbers of a row that its key is made of, at most. Rows that differ elsewhere only are told apart by the comparison.
KEY_SIZE = 2**11
#: Numbers compared at once, which fit a CPU's cache.
NUMBERS_PER_CHUNK = 2**17


def distinct_rows(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Rows of tensors (n, …) that hold all distinct ones, (m,) ascending, and the place of each among them, (n,)."""
    _, numbers, first = first_of_each(row_keys(parts))
    rows, earlier = torch.arange(len(parts[0]), device="cpu"), first[numbers]
    chosen = torch.where(equal_rows(parts, parts, earlier), earlier, rows)
    distinct, places = chosen.unique(return_inverse=True)
    return distinct, places


def first_of_each(keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The distinct keys in ascending order, (m,), the number of each row's, (n,), and the first row of each, (m,)."""
    distinct, numbers = keys.unique(return_inverse=True)
    rows = torch.arange(len(keys), device="cpu")
    # In reversed order, so that the first row of a key is written last.
    first = torch.empty_like(distinct, dtype=torch.int64).scatter_(0, numbers.flip(0), rows.flip(0))
    return distinct, numbers, first


def row_keys(parts: Sequence[Tensor]) -> Tensor:
    """A random projection of each row, (n,), equal for equal rows."""
    generator = torch.Generator("cpu").manual_seed(0)
    keys = torch.zeros(len(parts[0]), device="cpu")
    for part in parts:
        rows = part.reshape(len(part), -1) if part.numel() else part.new_zeros(len(part), 1)
        sample = rows[:, :: max(1, -(-rows.shape[1] // KEY_SIZE))]
        keys += _projections(sample, torch.randn(sample.shape[1], generator=generator, device="cpu"))
    return keys.nan_to_num_()


def _projections(rows: Tensor, direction: Tensor) -> Tensor:
    # A sum over each row is rounded in the same way for all of them, which a matrix product does not promise.
    size = max(1, NUMBERS_PER_CHUNK // len(direction))
    buffer = torch.empty(min(size, len(rows)), len(direction), device="cpu")
    chunks = rows.split(size)
    return torch.cat([torch.mul(chunk, direction, out=buffer[: len(chunk)]).sum(dim=1) for chunk in chunks])


def equal_rows(parts: Sequence[Tensor], others: Sequence[Tensor], rows: Tensor) -> Tensor:
    """Whether each row equals the row of the others that is given for it, (n,)."""
    equal = torch.ones(len(rows), dtype=torch.bool, device="cpu")
    own = rows == torch.arange(len(rows), device="cpu") if parts is others else ~equal
    for part, other in zip(parts, others, strict=True):
        if part.dtype != other.dtype:
            return torch.zeros_like(equal)
        for chunk, candidates in _gathered(other, rows, skip=own):
            same = _comparison(part[chunk], candidates)
            # Mostly all are equal, which is faster to ask.
            if not same.all():
                equal[chunk] &= torch.from_numpy(same.reshape(len(candidates), -1).all(axis=1))
    return equal


def _comparison(values: Tensor, others: Tensor) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which numbers are equal. NumPy takes a fifth of the time of `torch.equal`, but has no bfloat16."""
    if values.dtype == torch.bfloat16:
        values, others = values.float(), others.float()
    return np.asarray(values.numpy() == others.numpy())


def _gathered(values: Tensor, rows: Tensor, *, skip: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Rows of a tensor, some at a time, in one buffer; without chunks in which all are to be skipped."""
    size = max(1, NUMBERS_PER_CHUNK // max(values[:1].numel(), 1))
    buffer = values.new_empty(min(size, len(rows)), *values.shape[1:])
    for start in range(0, len(rows), size):
        chunk = slice(start, min(start + size, len(rows)))
        if skip[chunk].all():
            continue
        yield chunk, torch.index_select(values, 0, rows[chunk], out=buffer[: chunk.stop - chunk.start])
