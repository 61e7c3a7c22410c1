"""A table of cells with the number of their visits."""

from __future__ import annotations

import numpy as np

from revd.arrays import Array


class VisitTable:
    """Counts visits of cells, given as int64 keys. It takes 16 bytes for each distinct one.

    Args:
        limit: Most distinct cells. Further ones are not counted, and `is_full` is True from then on.

    Attributes:
        keys: Distinct cells in ascending order, (m,).
        counts: Their visits, (m,).
        is_full: Whether a cell had no room.
    """

    def __init__(self, limit: int) -> None:
        self.keys: Array = np.empty(0, np.int64)
        self.counts: Array = np.empty(0, np.int64)
        self.is_full = False
        self._limit = limit

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Array) -> int:
        """Count one visit for each key, and return how many distinct ones there are among them."""
        distinct, counts = np.unique(keys, return_counts=True)
        places = np.searchsorted(self.keys, distinct)
        known = places < len(self.keys)
        known[known] = self.keys[places[known]] == distinct[known]
        self.counts[places[known]] += counts[known]
        if not known.all():
            self._insert(places[~known], distinct[~known], counts[~known])
        return len(distinct)

    def restore(self, keys: Array, counts: Array, *, is_full: bool) -> None:
        """Replace the content by that of another table."""
        self.keys, self.counts, self.is_full = keys.copy(), counts.copy(), is_full

    def _insert(self, places: Array, keys: Array, counts: Array) -> None:
        room = self._limit - len(self.keys)
        self.is_full |= len(keys) > room
        self.keys = np.insert(self.keys, places[:room], keys[:room])
        self.counts = np.insert(self.counts, places[:room], counts[:room])
