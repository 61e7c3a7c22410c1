"""Selection of the smallest values in each row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from revd.functional.search.reused_buffers import ReusedBuffers

#: Bits of the float32 that is infinite; as integers, all finite non-negative numbers are smaller.
INFINITY = 0x7F800000


class Selection(NamedTuple):
    """Selected columns of each row.

    Attributes:
        columns: (..., count), their indices.
        found: (..., count), False where the value is inf.
        outside: (...), a lower bound of all other values in the row.
    """

    columns: Tensor
    found: Tensor
    outside: Tensor


def select_smallest(values: Tensor, offset: Tensor, count: int, groups: int, buffers: ReusedBuffers) -> Selection:
    """Select the `count` smallest of values + offset in each row.

    The smallest lie in the `count` groups with the smallest minima. Group g is the columns g, g + groups,
    g + 2 groups …, so that minima are taken over whole vectors at a time.

    Args:
        values: (..., rows, groups * size); inf in columns that do not count.
        offset: (..., rows), which makes all values of a row non-negative except for rounding.
        count: How many to select; at most `groups`.
        groups: Number of groups; the number of columns for no grouping.
        buffers: Memory for intermediate results.
    """
    rows = values.shape[:-1]
    size = values.shape[-1] // groups
    offset = offset[..., None]
    minima = buffers.take("minima", *rows, groups)
    if size == 1:
        return _select_ungrouped(torch.add(values, offset, out=minima), count)
    torch.amin(values.unflatten(-1, (size, groups)), dim=-2, out=minima)
    best = _select_ungrouped(minima.add_(offset), count)
    columns = buffers.take("columns", *rows, size, count, dtype=torch.int64)
    starts = torch.arange(0, values.shape[-1], groups, device=values.device)
    columns = torch.add(best.columns[..., None, :], starts[:, None], out=columns).flatten(-2)
    members = torch.gather(values, -1, columns, out=buffers.take("members", *columns.shape))
    members_best = _select_ungrouped(members.add_(offset), count)
    outside = torch.minimum(best.outside, members_best.outside)
    return Selection(columns.gather(-1, members_best.columns), members_best.found, outside)


def _select_ungrouped(values: Tensor, count: int) -> Selection:
    """Select without groups. Overwrites `values`, and treats negative ones as 0."""
    values.clamp_(min=0)
    if values.shape[-1] == count:
        columns = torch.arange(count, device=values.device).expand(values.shape)
        return Selection(columns, values.isfinite(), torch.full_like(values[..., 0], torch.inf))
    if values.device.type == "cpu":
        return _select_by_partition(values, count)
    found = values.topk(count + 1, dim=-1, largest=False, sorted=True)
    return Selection(found.indices[..., :count], found.values[..., :count].isfinite(), found.values[..., count])


def _select_by_partition(values: Tensor, count: int) -> Selection:
    """Select by NumPy's partition of integers: it is vectorised and takes a tenth of the time of `torch.topk`.

    Non-negative floats have the order of their bits. The column replaces the last bits of each.
    """
    mask = (1 << (values.shape[-1] - 1).bit_length()) - 1
    keys = values.view(torch.int32)
    keys.bitwise_and_(~mask).bitwise_or_(torch.arange(values.shape[-1], dtype=torch.int32))
    np.ndarray.partition(keys.numpy(), count, axis=-1)
    lowest = keys[..., :count]
    return Selection((lowest & mask).long(), lowest < INFINITY, (keys[..., count] & ~mask).view(torch.float32))


def sorted_rows(values: Tensor) -> Tensor:
    """Sort each row in ascending order; `torch.sort` is slow on many short rows on the CPU."""
    if values.device.type == "cpu":
        return torch.from_numpy(np.sort(values.numpy(), axis=-1))
    return values.sort(dim=-1).values
