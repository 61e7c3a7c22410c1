"""The few smallest of many: which columns of a row to look at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from revd.functional.search.reused_buffers import Workspace

#: Bits of the float32 that is infinite; as integers, all finite non-negative numbers are smaller.
INFINITY = 0x7F800000


class Selection(NamedTuple):
    """Some columns of each row, (..., count), whether there is anything in them, and what all others exceed, (...)."""

    columns: Tensor
    found: Tensor
    outside: Tensor


def smallest(values: Tensor, offset: Tensor, count: int, groups: int, workspace: Workspace) -> Selection:
    """The `count` smallest of values + offset in each row.

    The smallest lie in the `count` groups with the smallest minima. Group g is the columns g, g + groups,
    g + 2 groups …, so that minima are taken over whole vectors at a time.

    Args:
        values: (..., rows, groups * size); inf where there is nothing.
        offset: (..., rows), what makes all values of a row non-negative but for rounding.
        count: How many; at most `groups`.
        groups: Number of groups; the number of columns for none.
        workspace: Where the steps on the way are written.
    """
    rows = values.shape[:-1]
    size = values.shape[-1] // groups
    offset = offset[..., None]
    minima = workspace.take("minima", *rows, groups)
    if size == 1:
        return _lowest(torch.add(values, offset, out=minima), count)
    torch.amin(values.unflatten(-1, (size, groups)), dim=-2, out=minima)
    best = _lowest(minima.add_(offset), count)
    columns = workspace.take("columns", *rows, size, count, dtype=torch.int64)
    starts = torch.arange(0, values.shape[-1], groups, device=values.device)
    columns = torch.add(best.columns[..., None, :], starts[:, None], out=columns).flatten(-2)
    members = torch.gather(values, -1, columns, out=workspace.take("members", *columns.shape))
    within = _lowest(members.add_(offset), count)
    outside = torch.minimum(best.outside, within.outside)
    return Selection(columns.gather(-1, within.columns), within.found, outside)


def _lowest(values: Tensor, count: int) -> Selection:
    """The same without groups, for values that are overwritten; negative ones count as 0."""
    values.clamp_(min=0)
    if values.shape[-1] == count:
        columns = torch.arange(count, device=values.device).expand(values.shape)
        return Selection(columns, values.isfinite(), torch.full_like(values[..., 0], torch.inf))
    if values.device.type == "cpu":
        return _partition(values, count)
    found = values.topk(count + 1, dim=-1, largest=False, sorted=True)
    return Selection(found.indices[..., :count], found.values[..., :count].isfinite(), found.values[..., count])


def _partition(values: Tensor, count: int) -> Selection:
    """By NumPy's partition, which sorts whole vectors of integers at a time: a tenth of the time of `torch.topk`.

    Non-negative floats are ordered as their bits are. The last bits of each give way to its column.
    """
    mask = (1 << (values.shape[-1] - 1).bit_length()) - 1
    keys = values.view(torch.int32)
    keys.bitwise_and_(~mask).bitwise_or_(torch.arange(values.shape[-1], dtype=torch.int32))
    np.ndarray.partition(keys.numpy(), count, axis=-1)
    lowest = keys[..., :count]
    return Selection((lowest & mask).long(), lowest < INFINITY, (keys[..., count] & ~mask).view(torch.float32))


def sorted_rows(values: Tensor) -> Tensor:
    """Each row ascending; `torch.sort` is slow on many short rows on the CPU."""
    if values.device.type == "cpu":
        return torch.from_numpy(np.sort(values.numpy(), axis=-1))
    return values.sort(dim=-1).values
