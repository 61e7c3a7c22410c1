"""The exact search for nearest neighbours: in tiles of torch on a CPU, in Triton kernels on a GPU.

Where states repeat, a causal search on a CPU is among the distinct ones.
"""

from revd.functional.search.dispatch import nearest_distances
from revd.functional.search.reference_set import ReferenceSet
from revd.functional.search.repeated_search import repeated_distances

__all__ = ["ReferenceSet", "nearest_distances", "repeated_distances"]
