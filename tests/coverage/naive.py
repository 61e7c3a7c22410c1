"""Counting visits by loops that can be checked by eye."""

import math


def naive_cell(axes, values):
    """The interval of each coordinate; what lies beyond an end belongs to the outermost one."""
    cell = []
    for axis, value in zip(axes, values, strict=True):
        index = math.floor((value - (axis.low or 0.0)) / axis.size)
        if axis.low is not None:
            index = min(max(index, 0), round((axis.high - axis.low) / axis.size) - 1)
        cell.append(index)
    return tuple(cell)


def naive_counts(cells):
    """How often each cell occurs."""
    counts = {}
    for cell in cells:
        counts[cell] = counts.get(cell, 0) + 1
    return counts
