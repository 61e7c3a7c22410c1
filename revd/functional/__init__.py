"""Pure tensor mathematics: exact neighbour distances, discrepancies, divergence estimates, pseudo-counts."""

from revd.functional.counts import kernel_sums, pseudo_counts
from revd.functional.discounted import discounted_sums
from revd.functional.discrepancy import discrepancy, spread
from revd.functional.divergence import divergence_from_distances, renyi_divergence
from revd.functional.elliptical import elliptical_bonuses
from revd.functional.hashing import fingerprints
from revd.functional.neighbors import episode_distances, neighbor_distances, visible_distances

__all__ = [
    "discounted_sums",
    "discrepancy",
    "divergence_from_distances",
    "elliptical_bonuses",
    "episode_distances",
    "fingerprints",
    "kernel_sums",
    "neighbor_distances",
    "pseudo_counts",
    "renyi_divergence",
    "spread",
    "visible_distances",
]
