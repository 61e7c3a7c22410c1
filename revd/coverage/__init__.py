"""How much of a task has been visited: cells of states, and the counts of their visits. Needs NumPy alone."""

from revd.coverage.grid import Axis, Grid

__all__ = ["Axis", "Grid"]
