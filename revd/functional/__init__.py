"""Pure tensor mathematics: exact neighbour distances, divergence estimates, pseudo-counts."""

from revd.functional.counts import pseudo_counts
from revd.functional.divergence import divergence_from_distances, renyi_divergence
from revd.functional.neighbors import episode_distances, neighbor_distances, preceding_distances

__all__ = [
    "divergence_from_distances",
    "episode_distances",
    "neighbor_distances",
    "preceding_distances",
    "pseudo_counts",
    "renyi_divergence",
]
