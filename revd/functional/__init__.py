"""Pure tensor mathematics: exact neighbour distances, copies, discrepancies, divergence estimates, pseudo-counts."""

from revd.functional.counts import kernel_sums, pseudo_counts
from revd.functional.discounted import discounted_sums
from revd.functional.discrepancy import discrepancy, spread
from revd.functional.divergence import divergence_from_distances, renyi_divergence
from revd.functional.duplicates import Distinct, distinct_states, share_among_copies
from revd.functional.elliptical import elliptical_bonuses
from revd.functional.hashing import fingerprints
from revd.functional.neighbors import episode_distances, neighbor_distances, visible_distances

__all__ = [
    "Distinct",
    "discounted_sums",
    "discrepancy",
    "distinct_states",
    "divergence_from_distances",
    "elliptical_bonuses",
    "episode_distances",
    "fingerprints",
    "kernel_sums",
    "neighbor_distances",
    "pseudo_counts",
    "renyi_divergence",
    "share_among_copies",
    "spread",
    "visible_distances",
]
