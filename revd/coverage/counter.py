"""Counts the visits of a task's cells over a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from revd.arrays import Array
from revd.coverage.grid import Axis, CellFunction, Grid, Infos
from revd.coverage.keys import as_cells, cell_keys, pair_keys
from revd.coverage.stages import Stages
from revd.coverage.state import CounterState
from revd.coverage.table import VisitTable

#: Most distinct cells that are counted: 16 MB.
CELL_LIMIT = 1_000_000
#: Most distinct cells of a heat map.
PLANE_LIMIT = 2**16
#: The axes of a function that returns pairs of integers.
_PAIR_AXES = (Axis(name="first", whole=True), Axis(name="second", whole=True))


class CellBatch(NamedTuple):
    """The cells of some states: a key for each, and one for its place in the plane, if there is a plane."""

    keys: Array
    plane: Array | None


class VisitCounter:
    """Counts how often each cell was visited, and keeps the visits of the plane at some stages.

    The plane of a grid is that of its first two axes. A function has one if its cells are pairs of integers.

    Args:
        cell: What divides the states into cells.

    Attributes:
        steps: Environment steps of the training at the last `count`.
        last_distinct: Distinct cells of the last `count`.
    """

    def __init__(self, cell: Grid | CellFunction) -> None:
        self._cell = cell
        axes = cell.axes if isinstance(cell, Grid) else ()
        self._plane: tuple[Axis, Axis] | None = (axes[0], axes[1]) if len(axes) > 1 else None
        self._width: int | None = None
        self._table = VisitTable(CELL_LIMIT)
        self._map = VisitTable(PLANE_LIMIT)
        self._stages = Stages()
        self.steps = 0
        self.last_distinct = 0

    @property
    def description(self) -> str:
        """The cells in one line."""
        if isinstance(self._cell, Grid):
            return self._cell.describe()
        cell = self._cell
        return f"cells of {cell.__module__}:{getattr(cell, '__qualname__', type(cell).__name__)}"

    @property
    def reads_observations(self) -> bool:
        """Whether `batch` needs observations."""
        return not isinstance(self._cell, Grid) or self._cell.reads_observations

    @property
    def reads_infos(self) -> bool:
        """Whether `batch` needs infos."""
        return not isinstance(self._cell, Grid) or self._cell.reads_infos

    @property
    def distinct(self) -> int:
        """Distinct cells visited so far."""
        return len(self._table)

    @property
    def share(self) -> float | None:
        """Visited cells of all cells; None if nobody knows how many there are."""
        total = self._cell.n_cells if isinstance(self._cell, Grid) else None
        return None if total is None else self.distinct / total

    @property
    def total(self) -> int:
        """All visits so far."""
        return int(self._table.counts.sum())

    @property
    def full(self) -> str | None:
        """What to know if a cell had no room; None if all are counted."""
        if self._table.is_full:
            return f"more than {CELL_LIMIT:,} distinct cells were visited: further ones are not counted"
        if self._map.is_full:
            return f"more than {PLANE_LIMIT:,} cells of the plane were visited: further ones are in no heat map"
        return None

    def batch(self, observations: Any, infos: Infos, n: int) -> CellBatch:
        """The cells of n states. Nothing is counted yet."""
        if isinstance(self._cell, Grid):
            cells = self._cell.cells(observations, infos)
        else:
            cells = as_cells(self._cell(observations, infos), n)
            self._check_width(cells)
        return CellBatch(cell_keys(cells), None if self._plane is None else pair_keys(cells[:, :2]))

    def count(self, batches: Sequence[CellBatch], steps: int) -> None:
        """Count the visits of some batches, after so many steps of the training."""
        self.last_distinct = self._table.add(np.concatenate([batch.keys for batch in batches]))
        self.steps = steps
        if self._plane is not None:
            self._map.add(np.concatenate([batch.plane for batch in batches if batch.plane is not None]))
            self._stages.offer(steps, lambda: self.state().stage())

    def state(self) -> CounterState:
        """A copy of everything needed to continue counting."""
        return CounterState(
            description=self.description,
            steps=self.steps,
            tables={
                "keys": self._table.keys,
                "counts": self._table.counts.copy(),
                "map_keys": self._map.keys,
                "map_counts": self._map.counts.copy(),
            },
            is_full=(self._table.is_full, self._map.is_full),
            interval=self._stages.interval,
            width=self._width,
            plane=self._plane,
            stages=tuple(self._stages.kept),
        )

    def restore(self, state: CounterState) -> None:
        """Continue from a state; a ValueError if it is of other cells, or not a state."""
        if state.description not in ("", self.description):
            raise ValueError(f"the saved visits are of {state.description!r}, and those here of {self.description!r}")
        if isinstance(self._cell, Grid) and state.plane != self._plane:
            raise ValueError(f"the saved visits are of the plane {state.plane}, and those here of {self._plane}")
        self._table.restore(state.tables["keys"], state.tables["counts"], is_full=state.is_full[0])
        self._map.restore(state.tables["map_keys"], state.tables["map_counts"], is_full=state.is_full[1])
        self._plane, self._width, self.steps = state.plane, state.width, state.steps
        self._stages.kept, self._stages.interval = list(state.stages), state.interval

    def _check_width(self, cells: Array) -> None:
        """A function's cells must have the same form in every batch; pairs of integers are a plane."""
        width = 0 if cells.dtype.kind in "US" else cells[0].size
        if self._width is None:
            self._width = width
            self._plane = _PAIR_AXES if width == 2 else None
        if width != self._width:
            raise ValueError(f"the function of cells returned {_form(self._width)} before, and now {_form(width)}")


def _form(width: int) -> str:
    return "texts" if width == 0 else f"{width} integers a cell"
