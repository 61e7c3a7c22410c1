"""Bounds on the rounding error of squared distances in product form.

Both backends find candidates from |x|^2 + |y|^2 - 2 x·y about a centre. With s = |x| + |y|, so that |x| |y| <= s^2 / 4,
u the unit roundoff 2^-24 of float32 and d the dimension, the error is at most `bound * s^2`, plus `UNDERFLOW` for
each number that is too small for float32. A bound counts

* the squared norms, d u |x|^2 and d u |y|^2;
* the product, in the worst order of summation, which starts from |y|^2: d u (|y|^2 + 2 |x| |y|);
* the few roundings of centring and adding up, as 8 more terms.

The sum is at most 2 (d + 8) u s^2. 1.01 covers the terms of second order.
"""

from __future__ import annotations

UNIT = 2.0**-24
#: The smallest normal number; smaller ones may be rounded to 0.
UNDERFLOW = 2.0**-126


def float32_bound(dimension: int) -> float:
    """The bound for products in float32, with or without fused multiply-add, in any order of summation."""
    return 1.01 * 2 * (dimension + 8) * UNIT


def bfloat16x3_bound(dimension: int) -> float:
    """The bound for tensor cores with each factor split into two bfloat16: high·high + high·low + low·high.

    A bfloat16 rounds to 2^-8, so that the second half is at most 2^-8 of the number and leaves a residue of 2^-17. The
    two residues and the product low·low, which is left out, are 2^-15 |x| |y| together, and count twice. Tensor cores
    add up with truncation instead of rounding, 2 u a term, but start from 0.
    """
    return 1.01 * (2.0**-16 + 2 * (dimension + 8) * UNIT)


def underflow(dimension: int) -> float:
    """The most that squares and products of one distance may lose by underflow."""
    return 4 * dimension * UNDERFLOW


def direct_slack(dimension: int) -> float:
    """The factor by which a squared distance from direct differences may be too small or too large."""
    return 1 + (dimension + 16) * UNIT
