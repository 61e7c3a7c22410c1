"""The search as three Triton launches: nothing of size n x m is written, and nothing waits for the host.

So a search of fixed shapes can be captured in a CUDA graph. What the kernels do is in `triton_kernels.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from revd.functional.search import triton_kernels
from revd.functional.search.reference_set import Target
from revd.functional.search.rounding import bfloat16x3_bound, direct_slack, underflow
from revd.functional.search.triton_support import current

#: Rows and columns of a tile. A class of columns is what has the same place in every tile.
ROWS = 64
COLUMNS = 64
#: Numbers of a row or column that are loaded at once, at most; of longer ones fewer, for both halves of rows and
#: columns must fit into the shared memory of consumer GPUs, 99 KiB.
CHUNK = 128
LONG_CHUNK = 64
#: Of a thread, all that there are: left to itself, the assembler of Triton 3.6 gives it 32 on an A100.
REGISTERS = 255
#: Candidates beyond the k asked for.
SPARE = 3
#: More neighbours than this would not fit into registers.
LARGEST_K = 32
#: A tile's number takes the place of a distance's last bits: 16 leave 7, and 4 million columns.
TILE_BITS = (4, 8, 12, 16)
#: Programs that search again, and how many of them may share one row.
PROGRAMS = 512
PARTS = 16
#: Where the list of unproven rows starts: before it stand their number and a counter for each program.
HEADER = 1024
#: Columns from whose mean the centre is taken.
SAMPLE = 64


def can_search(shape: tuple[int, ...], targets: Sequence[Target], k: int) -> bool:
    """Whether the kernels are made for this: one or two targets, own points in the first, sizes that they can count."""
    batches, n, d = shape
    widest = max(target.columns.shape[1] for target in targets)
    itself = any(target.within or target.own is not None for target in targets[1:])
    countable = max(len(targets) * batches * n, (widest + COLUMNS) * _padded(d)) < 2**31
    few = len(targets) <= 2 and k <= LARGEST_K and 0 < widest <= COLUMNS << TILE_BITS[-1]
    return few and countable and not itself


def nearest(x: Tensor, targets: Sequence[Target], k: int) -> list[Tensor]:
    """Distances from the points of x, (b, n, d), to their k nearest in each target, (b, n, k), ascending."""
    if x.numel() == 0:
        return [x.new_empty(*x.shape[:2], k) for _ in targets]
    return list(search(x, targets, k).distances.unbind())


class Found(NamedTuple):
    """Distances, (targets, b, n, k), and in how many rows the products proved nothing, (1,), on the device."""

    distances: Tensor
    unproven: Tensor


def search(x: Tensor, targets: Sequence[Target], k: int) -> Found:
    """`nearest`, with what the benchmarks want to know besides."""
    batches, n, d = x.shape
    x = x.contiguous()
    y = [target.columns.contiguous() for target in targets]
    m = [columns.shape[1] for columns in y]
    width = triton.cdiv(max(m), COLUMNS) * COLUMNS
    padded = _padded(d)
    slots = len(targets) * batches
    visible = _visible(targets, batches, n)
    own = None if targets[0].own is None else targets[0].own.to(torch.int32).contiguous()
    columns = _Halves.empty(x, slots, width, padded)
    out = x.new_empty(len(targets), batches, n, k)
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
        "OWN": 2 if own is not None else int(targets[0].within),
    }
    with current(x.device):
        triton_kernels.prepare[batches * width // ROWS, len(targets)](
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
        triton_kernels.search[batches * triton.cdiv(n, ROWS), len(targets)](
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
    return Found(out, unproven[:1])


class _Halves(NamedTuple):
    """What `kernels.prepare` makes of the columns, filled up to whole tiles."""

    center: Tensor
    high: Tensor
    low: Tensor
    square: Tensor

    @classmethod
    def empty(cls, like: Tensor, slots: int, width: int, padded: int) -> _Halves:
        return cls(
            center=like.new_empty(slots, padded),
            high=like.new_empty(slots, width, padded, dtype=torch.bfloat16),
            low=like.new_empty(slots, width, padded, dtype=torch.bfloat16),
            square=like.new_empty(slots, width),
        )


def _visible(targets: Sequence[Target], batches: int, n: int) -> Tensor | None:
    """How many columns each row sees in each target, (targets, b, n); None if all see all."""
    if all(target.visible is None for target in targets):
        return None
    limits = [
        torch.full((batches, n), target.columns.shape[1], device=target.columns.device)
        if target.visible is None
        else target.visible
        for target in targets
    ]
    return torch.stack(limits).to(torch.int32).contiguous()


def _tile_bits(tiles: int) -> int:
    """A few numbers of bits, so that not every length compiles a kernel of its own."""
    return next(bits for bits in TILE_BITS if tiles <= 1 << bits)


def _padded(dimension: int) -> int:
    """Dimensions with which tensor cores can work."""
    if dimension <= CHUNK:
        return max(16, 1 << (dimension - 1).bit_length())
    return -(-dimension // LONG_CHUNK) * LONG_CHUNK
