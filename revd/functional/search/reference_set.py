"""Where a search looks: what every backend is asked."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Target(NamedTuple):
    """Columns in which the points of x, (b, n, d), look for neighbours.

    Point i of batch b sees columns 0 … visible[b, i] - 1 (all of them when None), less its own: that is column i where
    the columns are the points themselves (`within`), or own[b, i].
    """

    columns: Tensor
    visible: Tensor | None = None
    own: Tensor | None = None
    within: bool = False
