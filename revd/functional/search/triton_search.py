"""The search as three Triton launches, without n x m intermediate results and without waiting for the host.

So a search of fixed shapes can be captured in a CUDA graph. The kernels are in `triton_kernels.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from revd.functional.search import triton_kernels
from revd.functional.search.reference_set import ReferenceSet
from revd.functional.search.rounding import bfloat16x3_bound, direct_slack, underflow
from revd.functional.search.triton_support import launching_on

#: Rows and columns of a tile. Columns at the same place of every tile form a class.
ROWS = 64
COLUMNS = 64
#: The most numbers of a row or column that are loaded at once. Longer ones are loaded in smaller parts, since both
#: halves of rows and columns must fit into the shared memory of consumer GPUs, 99 KiB.
CHUNK = 128
LONG_CHUNK = 64
#: Registers of a thread: all there are. By default the assembler of Triton 3.6 takes 32 on an A100.
REGISTERS = 255
#: Candidates beyond k.
SPARE = 3
#: More neighbours than this would not fit into registers.
LARGEST_K = 32
#: How many last bits of a distance may hold the tile's number: 16 leave 7 of the mantissa, and allow 4 million columns.
TILE_BITS = (4, 8, 12, 16)
#: Programs of the second search, and how many of them may share one row.
PROGRAMS = 512
PARTS = 16
#: Where the list of unproven rows starts, after their number and a counter for each program.
HEADER = 1024
#: Columns whose mean is the centre.
SAMPLE = 64


def can_search(shape: tuple[int, ...], references: Sequence[ReferenceSet], k: int) -> bool:
    """Whether the kernels support this: one or two sets, own points only in the first, sizes within 32 bits."""
    batches, n, d = shape
    widest = max(reference.columns.shape[1] for reference in references)
    itself = any(reference.same_points or reference.own is not None for reference in references[1:])
    countable = max(len(references) * batches * n, (widest + COLUMNS) * _padded(d)) < 2**31
    few = len(references) <= 2 and k <= LARGEST_K and 0 < widest <= COLUMNS << TILE_BITS[-1]
    return few and countable and not itself


def nearest_distances(x: Tensor, references: Sequence[ReferenceSet], k: int) -> list[Tensor]:
    """Distances from the points of x, (b, n, d), to their k nearest in each set, (b, n, k), ascending."""
    if x.numel() == 0:
        return [x.new_empty(*x.shape[:2], k) for _ in references]
    return list(search_counting_unproven(x, references, k).distances.unbind())


class SearchResult(NamedTuple):
    """Distances, (sets, b, n, k), and the number of rows without a proof from products, (1,), on the device."""

    distances: Tensor
    unproven: Tensor


def search_counting_unproven(x: Tensor, references: Sequence[ReferenceSet], k: int) -> SearchResult:
    """Search as `nearest_distances` does, and count the rows that were searched again."""
    batches, n, d = x.shape
    x = x.contiguous()
    y = [reference.columns.contiguous() for reference in references]
    m = [columns.shape[1] for columns in y]
    width = triton.cdiv(max(m), COLUMNS) * COLUMNS
    padded = _padded(d)
    slots = len(references) * batches
    visible = _visible(references, batches, n)
    own = None if references[0].own is None else references[0].own.to(torch.int32).contiguous()
    columns = _ColumnHalves.empty(x, slots, width, padded)
    out = x.new_empty(len(references), batches, n, k)
    unproven = x.new_empty(HEADER + slots * n, dtype=torch.int32)
    partial = x.new_empty(PROGRAMS * triton.next_power_of_2(k))
    candidates = k + SPARE + 1
    points: dict[str, Any] = {"y0": y[0], "y1": y[-1], "batches": batches, "m0": m[0], "m1": m[-1], "d": d}
    shape: dict[str, Any] = {"PADDED": padded, "CHUNK": padded if d <= CHUNK else LONG_CHUNK, "HEADER": HEADER}
    rows: dict[str, Any] = {
        "x": x,
        "visible": visible,
        "own": own,
        "out": out,
        "unproven": unproven,
        "n": n,
        "K": k,
        "LIMITED": visible is not None,
        "OWN": 2 if own is not None else int(references[0].same_points),
    }
    with launching_on(x.device):
        triton_kernels.prepare[batches * width // ROWS, len(references)](
            **points,
            **shape,
            **columns._asdict(),
            unproven=unproven,
            counts=None if visible is None else visible.amax(dim=-1),
            width=width,
            ROWS=ROWS,
            SAMPLE=SAMPLE,
            RAGGED=visible is not None,
            num_warps=4,
        )
        triton_kernels.search[batches * triton.cdiv(n, ROWS), len(references)](
            **points,
            **shape,
            **rows,
            **columns._asdict(),
            width=width,
            error=bfloat16x3_bound(d),
            underflow=underflow(d),
            slack=direct_slack(d),
            CANDIDATES=candidates,
            SLOTS=triton.next_power_of_2(candidates),
            TILE_BITS=_tile_bits(width // COLUMNS),
            REFINE=min(padded, 64),
            ROWS=ROWS,
            COLUMNS=COLUMNS,
            STAGES=2,
            WIDEN=not x.is_cuda,
            num_warps=4,
            maxnreg=REGISTERS,
        )
        triton_kernels.search_again[PROGRAMS if x.is_cuda else 2,](
            **points,
            **shape,
            **rows,
            partial=partial,
            SLOTS=triton.next_power_of_2(k),
            PARTS=PARTS,
            COLUMNS=COLUMNS,
            num_warps=4,
        )
    return SearchResult(out, unproven[:1])


class _ColumnHalves(NamedTuple):
    """The output of the kernel `prepare`, padded to whole tiles."""

    center: Tensor
    high: Tensor
    low: Tensor
    square: Tensor

    @classmethod
    def empty(cls, like: Tensor, slots: int, width: int, padded: int) -> _ColumnHalves:
        return cls(
            center=like.new_empty(slots, padded),
            high=like.new_empty(slots, width, padded, dtype=torch.bfloat16),
            low=like.new_empty(slots, width, padded, dtype=torch.bfloat16),
            square=like.new_empty(slots, width),
        )


def _visible(references: Sequence[ReferenceSet], batches: int, n: int) -> Tensor | None:
    """How many columns of each set each row sees, (sets, b, n); None if all rows see all columns."""
    if all(reference.visible is None for reference in references):
        return None
    limits = [
        torch.full((batches, n), reference.columns.shape[1], device=reference.columns.device)
        if reference.visible is None
        else reference.visible
        for reference in references
    ]
    return torch.stack(limits).to(torch.int32).contiguous()


def _tile_bits(tiles: int) -> int:
    """Bits for the tile's number, one of a few choices, so that few kernels must be compiled."""
    return next(bits for bits in TILE_BITS if tiles <= 1 << bits)


def _padded(dimension: int) -> int:
    """The dimension padded to a size that tensor cores support."""
    if dimension <= CHUNK:
        return max(16, 1 << (dimension - 1).bit_length())
    return -(-dimension // LONG_CHUNK) * LONG_CHUNK
