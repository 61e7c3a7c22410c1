"""How far a squared distance in its product form may be from the true one.

Both backends find candidates from |x|^2 + |y|^2 - 2 x·y about a centre. With s = |x| + |y|, so that |x| |y| <= s^2 / 4,
u the unit roundoff 2^-24 of float32 and d the dimension, a column's value is off by at most `bound * s^2`, which counts

* the two squared norms, d u each at most, and the few roundings of centring and adding up: (d + 8) u s^2 with
* twice the dot product's own error, d u |x| |y| in float32 arithmetic.

1.01 covers the terms of second order.
"""

from __future__ import annotations

UNIT = 2.0**-24


def float32_bound(dimension: int) -> float:
    """Of products in float32, with or without fused multiply-add, in any order of summation."""
    return 1.01 * (dimension + 8) * UNIT


def bfloat16x3_bound(dimension: int) -> float:
    """Of products on tensor cores, each factor the sum of two bfloat16: high·high + high·low + low·high.

    A half rounds to 2^-9, so that two leave a residue of 2^-18; the two residues and the product low·low, which is left
    out, are 3 2^-18 |x| |y| together. Tensor cores add up with truncation instead of rounding: 2 u a term.
    """
    return 1.01 * (1.5 * 2.0**-18 + 2 * (dimension + 8) * UNIT)


def direct_slack(dimension: int) -> float:
    """By which factor a squared distance from direct differences may be too small or too large."""
    return 1 + (dimension + 4) * UNIT
