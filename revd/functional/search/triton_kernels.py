"""The Triton kernels of the search: prepare the columns, search, and search unproven rows again.

One launch compares each point of x with the columns y_s of its batch, for one or two sets of columns (s = 0, 1). No
result of size n x m is written. Each program streams tiles of columns past its rows. For every residue class of columns
modulo the tile's width, it keeps the four smallest squared distances, packed with the tile's number into 32 bits.

The arithmetic is described in `rounding.py`, the launches in `triton_search.py`.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Bits of a float32 that is infinite; as integers, all finite non-negative numbers are smaller.
INFINITY = tl.constexpr(0x7F800000)
#: Larger than every key.
EMPTY = tl.constexpr(0x7FFFFFFF)


@triton.jit
def write_zero(out):
    """Write a zero, to test whether kernels can be compiled and launched."""
    tl.store(out, 0.0)


@triton.jit
def _rounded(values):
    """Round to the nearest bfloat16, kept as a float32: rounding by conversion differs between machines."""
    bits = values.to(tl.int32, bitcast=True) + 0x8000
    return (bits & ~0xFFFF).to(tl.float32, bitcast=True)


@triton.jit
def _halves(values):
    """Split a float32 into two bfloat16 whose sum has a relative error of 2^-17."""
    high = _rounded(values)
    return high.to(tl.bfloat16), _rounded(values - high).to(tl.bfloat16)


@triton.jit
def prepare(
    y0,
    y1,
    counts,
    center,
    high,
    low,
    square,
    unproven,
    batches,
    m0,
    m1,
    width,
    d,
    PADDED: tl.constexpr,
    CHUNK: tl.constexpr,
    ROWS: tl.constexpr,
    SAMPLE: tl.constexpr,
    HEADER: tl.constexpr,
    RAGGED: tl.constexpr,
):
    """Write the columns minus a centre, as two bfloat16 halves, and their squared norms; inf in padding.

    The centre is the mean of `SAMPLE` columns spread over the valid ones. Every program computes the same one.
    """
    blocks = width // ROWS
    block = tl.program_id(0) % blocks
    batch = tl.program_id(0) // blocks
    which = tl.program_id(1)
    slot = (which * batches + batch).to(tl.int64)
    if which == 0:
        y = y0 + batch.to(tl.int64) * m0 * d
        count = m0
    else:
        y = y1 + batch.to(tl.int64) * m1 * d
        count = m1
    if RAGGED:
        count = tl.load(counts + slot)
    rows = block * ROWS + tl.arange(0, ROWS)
    sampled = tl.arange(0, SAMPLE).to(tl.int64) * count // SAMPLE
    total = tl.zeros([ROWS], tl.float32)
    for start in range(0, PADDED, CHUNK):
        dims = start + tl.arange(0, CHUNK)
        inside = dims[None, :] < d
        sample = tl.load(y + sampled[:, None] * d + dims[None, :], mask=inside & (count > 0), other=0.0)
        mean = tl.sum(sample, axis=0) / SAMPLE
        present = inside & (rows[:, None] < count)
        points = tl.load(y + rows[:, None].to(tl.int64) * d + dims[None, :], mask=present, other=0.0)
        centred = tl.where(present, points - mean[None, :], 0.0)
        total += tl.sum(centred * centred, axis=1)
        first, second = _halves(centred)
        place = (slot * width + rows[:, None]) * PADDED + dims[None, :]
        tl.store(high + place, first)
        tl.store(low + place, second)
        tl.store(center + slot * PADDED + dims, mean, mask=(block == 0) & (dims < PADDED))
    # A column that overflows or is NaN gets an infinite norm, so that no row counts as proven.
    total = tl.where((rows < count) & (total == total), total, float("inf"))
    tl.store(square + slot * width + rows, total)
    if tl.program_id(0) + tl.program_id(1) == 0:
        tl.store(unproven + tl.arange(0, HEADER), tl.zeros([HEADER], tl.int32))


@triton.jit
def _add_product(total, row_high, row_low, column_high, column_low, WIDEN: tl.constexpr):
    """Add three of the four products of the halves, the smallest first."""
    if WIDEN:
        row_high, row_low = row_high.to(tl.float32), row_low.to(tl.float32)
        column_high, column_low = column_high.to(tl.float32), column_low.to(tl.float32)
    total = tl.dot(row_low, tl.trans(column_high), total)
    total = tl.dot(row_high, tl.trans(column_low), total)
    return tl.dot(row_high, tl.trans(column_high), total)


@triton.jit
def _row_halves(x, mean, rows, dims, d, seen):
    present = seen[:, None] & (dims[None, :] < d)
    points = tl.load(x + rows[:, None].to(tl.int64) * d + dims[None, :], mask=present, other=0.0)
    centred = tl.where(present, points - mean[None, :], 0.0)
    first, second = _halves(centred)
    return first, second, tl.sum(centred * centred, axis=1)


@triton.jit
def _direct(x, y, rows, columns, d, CHUNK: tl.constexpr, PADDED: tl.constexpr):
    """Squared distances of row i to column i from direct differences; inf where the column is negative."""
    total = tl.zeros([rows.shape[0]], tl.float32)
    for start in range(0, PADDED, CHUNK):
        dims = start + tl.arange(0, CHUNK)
        inside = (columns >= 0)[:, None] & (dims[None, :] < d)
        one = tl.load(x + rows[:, None].to(tl.int64) * d + dims[None, :], mask=inside, other=0.0)
        other = tl.load(y + columns[:, None].to(tl.int64) * d + dims[None, :], mask=inside, other=0.0)
        difference = one - other
        total += tl.sum(difference * difference, axis=1)
    return tl.where(columns >= 0, total, float("inf"))


@triton.jit
def search(
    x,
    y0,
    y1,
    visible,
    own,
    center,
    high,
    low,
    square,
    out,
    unproven,
    batches,
    n,
    m0,
    m1,
    width,
    d,
    error,
    underflow,
    slack,
    K: tl.constexpr,
    CANDIDATES: tl.constexpr,
    SLOTS: tl.constexpr,
    TILE_BITS: tl.constexpr,
    PADDED: tl.constexpr,
    CHUNK: tl.constexpr,
    REFINE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    LIMITED: tl.constexpr,
    OWN: tl.constexpr,
    HEADER: tl.constexpr,
    STAGES: tl.constexpr,
    WIDEN: tl.constexpr,
):
    """Write the K nearest of every row, and list the rows for which this is not proven."""
    blocks = tl.cdiv(n, ROWS)
    block = tl.program_id(0) % blocks
    batch = tl.program_id(0) // blocks
    which = tl.program_id(1)
    slot = (which * batches + batch).to(tl.int64)
    x += batch.to(tl.int64) * n * d
    if which == 0:
        y = y0 + batch.to(tl.int64) * m0 * d
        m = m0
    else:
        y = y1 + batch.to(tl.int64) * m1 * d
        m = m1
    center += slot * PADDED
    high += slot * width * PADDED
    low += slot * width * PADDED
    square += slot * width

    rows = block * ROWS + tl.arange(0, ROWS)
    limits = tl.where(rows < n, m, 0)
    if LIMITED:
        limits = tl.load(visible + slot * n + rows, mask=rows < n, other=0)
    seen = limits > 0
    most = tl.max(limits, axis=0)
    fewest = tl.min(tl.where(rows < n, limits, m), axis=0)

    classes = tl.arange(0, COLUMNS)
    dims = tl.arange(0, CHUNK)
    row_square = tl.zeros([ROWS], tl.float32)
    for start in range(0, PADDED, CHUNK):
        _, _, part = _row_halves(x, tl.load(center + start + dims), rows, start + dims, d, seen)
        row_square += part
    row_high, row_low, _ = _row_halves(x, tl.load(center + dims), rows, dims, d, seen)

    best0 = tl.full([ROWS, COLUMNS], EMPTY, tl.int32)
    best1 = best0
    best2 = best0
    best3 = best0
    largest = tl.zeros([COLUMNS], tl.float32)
    mask: tl.constexpr = (1 << TILE_BITS) - 1
    for tile in tl.range(0, tl.cdiv(most, COLUMNS), num_stages=STAGES):
        columns = tile * COLUMNS + classes
        column_square = tl.load(square + columns)
        product = tl.zeros([ROWS, COLUMNS], tl.float32)
        if PADDED == CHUNK:
            place = columns[:, None] * PADDED + dims[None, :]
            column_high = tl.load(high + place)
            column_low = tl.load(low + place)
            product = _add_product(product, row_high, row_low, column_high, column_low, WIDEN)
        else:
            for start in range(0, PADDED, CHUNK):
                row_high, row_low, _ = _row_halves(x, tl.load(center + start + dims), rows, start + dims, d, seen)
                place = columns[:, None] * PADDED + start + dims[None, :]
                column_high = tl.load(high + place)
                column_low = tl.load(low + place)
                product = _add_product(product, row_high, row_low, column_high, column_low, WIDEN)
        largest = tl.maximum(largest, tl.where(columns < most, column_square, 0.0))
        values = tl.maximum(row_square[:, None] + column_square[None, :] - 2.0 * product, 0.0)
        if LIMITED:
            if (tile + 1) * COLUMNS > fewest:
                values = tl.where(columns[None, :] < limits[:, None], values, float("inf"))
        key = (values.to(tl.int32, bitcast=True) & ~mask) | tile
        best3 = tl.minimum(best3, tl.maximum(best2, key))
        best2 = tl.minimum(best2, tl.maximum(best1, key))
        best1 = tl.minimum(best1, tl.maximum(best0, key))
        best0 = tl.minimum(best0, key)

    # No column that a class has dropped is nearer than the last one it kept.
    outside = tl.min(best3, axis=1)
    itself = rows
    if OWN == 2:
        itself = tl.load(own + batch.to(tl.int64) * n + rows, mask=rows < n, other=-1)
    slots = tl.arange(0, SLOTS)
    chosen = tl.full([ROWS, SLOTS], -1, tl.int32)
    for candidate in range(CANDIDATES):
        key = tl.min(best0, axis=1)
        place = tl.min(tl.where(best0 == key[:, None], classes[None, :], COLUMNS - 1), axis=1)
        hit = classes[None, :] == place[:, None]
        best0 = tl.where(hit, best1, best0)
        best1 = tl.where(hit, best2, best1)
        best2 = tl.where(hit, best3, best2)
        best3 = tl.where(hit, EMPTY, best3)
        column = (key & mask) * COLUMNS + place
        found = seen & (key < INFINITY)
        if OWN > 0:
            found = found & ((column != itself) | (which > 0))
        chosen = tl.where((slots[None, :] == candidate) & found[:, None], column[:, None], chosen)
    outside = tl.minimum(outside, tl.min(best0, axis=1))
    outside = tl.minimum(outside & ~mask, INFINITY).to(tl.float32, bitcast=True)

    squared = tl.full([ROWS, SLOTS], float("inf"), tl.float32)
    for candidate in range(CANDIDATES):
        column = tl.max(tl.where(slots[None, :] == candidate, chosen, -1), axis=1)
        distance = _direct(x, y, rows, column, d, REFINE, PADDED)
        squared = tl.where(slots[None, :] == candidate, distance[:, None], squared)

    kth = row_square
    for rank in range(K):
        kth = tl.min(squared, axis=1)
        first = tl.min(tl.where(squared == kth[:, None], slots[None, :], SLOTS), axis=1)
        squared = tl.where(slots[None, :] == first[:, None], float("inf"), squared)
        tl.store(out + (slot * n + rows) * K + rank, tl.sqrt(kth), mask=rows < n)
    size = tl.sqrt(row_square) + tl.sqrt(tl.max(largest, axis=0))
    bound = error * size * size + underflow
    proven = (outside - bound >= kth * slack) | (kth == 0) | (outside == float("inf"))
    # If numbers overflow or are NaN, the products prove nothing.
    proven = proven & (row_square + bound < float("inf"))
    missing = (rows < n) & ~proven
    index = tl.atomic_add(unproven + tl.zeros([ROWS], tl.int32), 1, mask=missing)
    tl.store(unproven + HEADER + index, (slot * n + rows).to(tl.int32), mask=missing)


@triton.jit
def search_again(
    x,
    y0,
    y1,
    visible,
    own,
    out,
    unproven,
    partial,
    batches,
    n,
    m0,
    m1,
    d,
    K: tl.constexpr,
    SLOTS: tl.constexpr,
    PARTS: tl.constexpr,
    PADDED: tl.constexpr,
    CHUNK: tl.constexpr,
    COLUMNS: tl.constexpr,
    LIMITED: tl.constexpr,
    OWN: tl.constexpr,
    HEADER: tl.constexpr,
):
    """Search all columns for the unproven rows, by direct differences.

    If there are few such rows, several programs share one. Each writes the K best of its columns to `partial`, and the
    last program to finish merges them.
    """
    slots = tl.arange(0, SLOTS)
    count = tl.load(unproven)
    parts = tl.minimum(tl.maximum(tl.num_programs(0) // tl.maximum(count, 1), 1), PARTS)
    for item in range(tl.program_id(0), count * parts, tl.num_programs(0)):
        entry = item // parts
        row = tl.load(unproven + HEADER + entry).to(tl.int64)
        slot = row // n
        which = slot // batches
        batch = slot % batches
        point = x + (batch * n + row % n) * d
        if which == 0:
            y = y0 + batch * m0 * d
            m = m0
        else:
            y = y1 + batch * m1 * d
            m = m1
        if LIMITED:
            m = tl.load(visible + row)
        itself = (row % n).to(tl.int32)
        if OWN == 2:
            itself = tl.load(own + batch * n + row % n)
        if (OWN == 0) | (which > 0):
            itself = -1
        span = tl.cdiv(m, parts)
        begin = (item % parts) * span
        end = tl.minimum(begin + span, m)
        # The K best so far, in any order; -1 keeps the other slots from being the worst.
        best = tl.where(slots < K, float("inf"), -1.0)
        for first in range(begin, end, COLUMNS):
            columns = first + tl.arange(0, COLUMNS)
            present = (columns < end) & (columns != itself)
            squared = tl.zeros([COLUMNS], tl.float32)
            for start in range(0, PADDED, CHUNK):
                dims = start + tl.arange(0, CHUNK)
                one = tl.load(point + dims, mask=dims < d, other=0.0)
                inside = present[:, None] & (dims[None, :] < d)
                other = tl.load(y + columns[:, None].to(tl.int64) * d + dims[None, :], mask=inside, other=0.0)
                difference = tl.where(inside, one[None, :] - other, 0.0)
                squared += tl.sum(difference * difference, axis=1)
            squared = tl.where(present & (squared == squared), squared, float("inf"))
            nearest = tl.min(squared, axis=0)
            worst = tl.max(best, axis=0)
            while nearest < worst:
                # Only one of each, where several are equal.
                slot_out = tl.min(tl.where(best == worst, slots, SLOTS), axis=0)
                column_in = tl.min(tl.where(squared == nearest, columns, first + COLUMNS), axis=0)
                best = tl.where(slots == slot_out, nearest, best)
                squared = tl.where(columns == column_in, float("inf"), squared)
                nearest = tl.min(squared, axis=0)
                worst = tl.max(best, axis=0)
        best = tl.where(slots < K, best, float("inf"))
        if parts == 1:
            _store_sorted(best, out + row * K, SLOTS, K)
        else:
            tl.store(partial + item * SLOTS + slots, best)
            tl.debug_barrier()
            if tl.atomic_add(unproven + 1 + entry, 1) == parts - 1:
                both = tl.arange(0, PARTS * SLOTS)
                found = tl.load(partial + entry * parts * SLOTS + both, mask=both < parts * SLOTS, other=float("inf"))
                _store_sorted(found, out + row * K, PARTS * SLOTS, K)


@triton.jit
def _store_sorted(squared, out, SIZE: tl.constexpr, K: tl.constexpr):
    """Store the square roots of the K smallest values in ascending order."""
    places = tl.arange(0, SIZE)
    for rank in range(K):
        smallest = tl.min(squared, axis=0)
        first = tl.min(tl.where(squared == smallest, places, SIZE), axis=0)
        squared = tl.where(places == first, float("inf"), squared)
        tl.store(out + rank, tl.sqrt(smallest))
