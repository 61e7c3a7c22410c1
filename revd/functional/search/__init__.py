"""The exact search for nearest neighbours: in tiles of torch on a CPU, in Triton kernels on a GPU."""

from revd.functional.search.dispatch import nearest_distances
from revd.functional.search.reference_set import ReferenceSet

__all__ = ["ReferenceSet", "nearest_distances"]
