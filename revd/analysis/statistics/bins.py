"""Bins of equal width over the steps of a run: what an archive keeps of its episodes."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from revd.arrays import Array
from revd.episodes import PARTS, Episodes

#: Bins of a run. A multiple of `PARTS`, so that no bin reaches into two of the parts that a final return is made of.
BINS = 100 * PARTS


@dataclass(frozen=True, kw_only=True)
class Bins:
    """The bins that hold episodes: last step of each, episodes that ended in it, and their mean return; each (n,)."""

    steps: Array
    counts: Array
    means: Array


def bin_episodes(episodes: Episodes, total_steps: int, *, bins: int = BINS) -> Bins:
    """Divide the steps of a run into `bins` bins; episodes after the last one are left out, as in final returns."""
    edges = np.arange(bins + 1) * total_steps / bins
    places = np.searchsorted(episodes.steps, edges, side="right")
    spans = zip(edges[1:], pairwise(places), strict=True)
    filled = [(edge, first, last) for edge, (first, last) in spans if last > first]
    return Bins(
        # Steps are whole numbers, so the last one in a bin is its edge rounded down.
        steps=np.array([int(edge) for edge, _, _ in filled], dtype=np.int64),
        counts=np.array([last - first for _, first, last in filled], dtype=np.int64),
        means=np.array([np.mean(episodes.returns[first:last]) for _, first, last in filled], dtype=np.float64),
    )
