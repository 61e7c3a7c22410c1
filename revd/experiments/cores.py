"""How many processor cores there are for us."""

import os


def available_cores() -> int:
    """The cores that this process may use, which on a cluster's node are often fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
