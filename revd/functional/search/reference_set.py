"""The points among which a search looks for neighbours."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class ReferenceSet(NamedTuple):
    """Points among which the points of x, (b, n, d), look for neighbours.

    Point i of batch b sees columns 0 … visible[b, i] - 1, or all of them if `visible` is None. It never sees itself:
    column i if the set is x itself (`same_points`), or column own[b, i].

    Attributes:
        columns: (b, m, d).
        visible: (b, n), how many leading columns each point sees.
        own: (b, n), the column that is the point itself.
        same_points: Whether `columns` are x itself.
    """

    columns: Tensor
    visible: Tensor | None = None
    own: Tensor | None = None
    same_points: bool = False
