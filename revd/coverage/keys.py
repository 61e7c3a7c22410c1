"""Cells as 64-bit integers, so that counting them is sorting numbers."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np

from revd.arrays import Array

_HALF = 2**31
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def as_cells(returned: Any, n: int) -> Array:
    """Check what a cell function returned for n states, and return it as an array of integers or texts."""
    cells = np.asarray(returned)
    if cells.ndim not in (1, 2) or len(cells) != n or cells.size == 0:
        raise ValueError(f"the function of cells must return one cell for each of {n} states, got shape {cells.shape}")
    if cells.dtype.kind in "iub":
        return cells.astype(np.int64)
    if cells.dtype.kind in "US" and cells.ndim == 1:
        return cells
    raise TypeError(
        "the function of cells must return integers, (n,) or (n, d), or texts, (n,); "
        f"got {cells.dtype} of shape {cells.shape}. Round real numbers first, or use a Grid"
    )


def cell_keys(cells: Array) -> Array:
    """One int64 for each cell (n,) or (n, d): exact for one or two integers, else a hash of 64 bits.

    Among a million cells, two share a hash with a probability of 3e-8.
    """
    if cells.dtype.kind in "US":
        return _text_keys(cells)
    columns = cells.reshape(len(cells), -1)
    if columns.shape[1] == 1:
        return columns[:, 0]
    return pair_keys(columns) if columns.shape[1] == 2 else _row_keys(columns)


def pair_keys(pairs: Array) -> Array:
    """One int64 for each pair (n, 2) of integers within ± 2^31."""
    if pairs.size and (pairs.min() < -_HALF or pairs.max() >= _HALF):
        raise ValueError(f"cells must lie within -2^31 … 2^31 - 1, got {pairs.min()} … {pairs.max()}")
    keys: Array = (pairs[:, 0] << 32) + (pairs[:, 1] + _HALF)
    return keys


def key_pairs(keys: Array) -> Array:
    """The inverse of `pair_keys`: (n, 2)."""
    return np.stack([keys >> 32, (keys & (2**32 - 1)) - _HALF], axis=1)


def _row_keys(rows: Array) -> Array:
    """A hash of each row; it mixes one column after the other as the generator splitmix64 does."""
    state = np.zeros(len(rows), np.uint64)
    for column in np.ascontiguousarray(rows.T).view(np.uint64):
        state = _mix((state ^ column) + _GOLDEN)
    return state.view(np.int64)


def _mix(state: Array) -> Array:
    state = (state ^ (state >> np.uint64(30))) * _FACTORS[0]
    state = (state ^ (state >> np.uint64(27))) * _FACTORS[1]
    state ^= state >> np.uint64(31)
    return state


def _text_keys(texts: Array) -> Array:
    # Python's own hash of a text differs from process to process, and counts outlive a process.
    distinct, places = np.unique(texts, return_inverse=True)
    hashed = [blake2b(str(text).encode(), digest_size=8).digest() for text in distinct.tolist()]
    keys: Array = np.frombuffer(b"".join(hashed), np.int64)[places.reshape(-1)]
    return keys
