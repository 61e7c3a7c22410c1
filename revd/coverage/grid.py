"""Grids: what divides the states of a task into cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from revd.arrays import Array

#: A batch of n observations (n, …), or a dict of them.
Observations: TypeAlias = "Array | dict[str, Array]"
#: The infos of the same n steps.
Infos: TypeAlias = Sequence[Mapping[str, Any]]
#: Integer cells (n,) or (n, d), or texts (n,), of a batch of observations with its infos.
CellFunction: TypeAlias = Callable[[Any, Infos], Any]
#: Where the coordinates of a state are: entries of its observation, a key of its info, or a function of both.
Coordinates: TypeAlias = Sequence[int] | str | CellFunction

# Cells of an axis without ends lie within ± 2^31, so that a pair of them fits into 64 bits.
_SMALLEST, _LARGEST = -(2**31), 2**31 - 1
_MAX_BINS = 2**20


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One coordinate of a grid, cut into intervals of equal size.

    With `low` and `high` it has ends, and what lies beyond belongs to the outermost intervals. Without, it has none.

    Attributes:
        name: Its label in heat maps.
        size: Length of an interval.
        low: Where the first interval begins.
        high: Where the last interval ends.
        unit: For the label; empty for numbers without a unit.
        whole: Whether coordinates are whole numbers; each is then the middle of its interval in a heat map.
        downwards: Whether a heat map draws it from top to bottom, as MiniGrid does with y.
    """

    name: str
    size: float = 1.0
    low: float | None = None
    high: float | None = None
    unit: str = ""
    whole: bool = False
    downwards: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.size) and self.size > 0):
            raise ValueError(f"size of axis {self.name!r} must be a finite number above 0, got {self.size}")
        if self.low is None and self.high is None:
            return
        if self.low is None or self.high is None:
            raise ValueError(f"axis {self.name!r} needs both low and high, or neither; got {self.low} and {self.high}")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"axis {self.name!r} needs finite low < high, got {self.low} and {self.high}")
        bins = (self.high - self.low) / self.size
        if not 1 <= round(bins) <= _MAX_BINS or abs(bins - round(bins)) > 1e-6 * bins:
            raise ValueError(
                f"size of axis {self.name!r} must divide high - low into 1 … {_MAX_BINS:,} equal parts, got "
                f"({self.high} - {self.low}) / {self.size} = {bins:g}"
            )

    @property
    def bins(self) -> int | None:
        """Number of intervals; None without ends."""
        return None if self.low is None or self.high is None else round((self.high - self.low) / self.size)

    @property
    def label(self) -> str:
        """Name and unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def edge(self, index: float) -> float:
        """The coordinate at which a heat map begins the interval `index`."""
        return (self.low or 0.0) + (index - 0.5 * self.whole) * self.size


@dataclass(frozen=True)
class Grid:
    """Cells of equal size over some coordinates of a state. Heat maps show the first two.

    Args:
        axes: One for each coordinate.
        coordinates: The entries of the flattened observation (by default the first ones, in order), the key of
            `info` that holds them, or a function `(observations, infos) -> (n, d)` of a batch of n steps.
    """

    axes: Sequence[Axis]
    coordinates: Coordinates | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))
        if not self.axes:
            raise ValueError("axes must hold at least one Axis, got none")
        if self.coordinates is None:
            object.__setattr__(self, "coordinates", tuple(range(len(self.axes))))
        entries = self.coordinates
        if isinstance(entries, str) or callable(entries):
            return
        if len(entries or ()) != len(self.axes):
            raise ValueError(f"coordinates must name one entry for each of {len(self.axes)} axes, got {entries!r}")

    @property
    def reads_observations(self) -> bool:
        """Whether cells depend on observations."""
        return not isinstance(self.coordinates, str)

    @property
    def reads_infos(self) -> bool:
        """Whether cells depend on infos."""
        return isinstance(self.coordinates, str) or callable(self.coordinates)

    @property
    def n_cells(self) -> int | None:
        """Number of cells; None if an axis has no ends."""
        bins = [axis.bins for axis in self.axes]
        return math.prod(count for count in bins if count is not None) if None not in bins else None

    def cells(self, observations: Any, infos: Infos) -> Array:
        """The cells of a batch of n states, (n, d) integers."""
        values = self._values(observations, infos)
        if np.isnan(values).any():
            name = self.axes[int(np.flatnonzero(np.isnan(values).any(axis=0))[0])].name
            raise ValueError(f"a state has no cell: its coordinate {name!r} is NaN")
        origins = np.array([axis.low or 0.0 for axis in self.axes])
        sizes = np.array([axis.size for axis in self.axes])
        first = [_SMALLEST if axis.bins is None else 0 for axis in self.axes]
        last = [_LARGEST if axis.bins is None else axis.bins - 1 for axis in self.axes]
        cells: Array = np.clip(np.floor((values - origins) / sizes), first, last).astype(np.int64)
        return cells

    def _values(self, observations: Any, infos: Infos) -> Array:
        """The coordinates of a batch, (n, d)."""
        if isinstance(self.coordinates, str):
            values = _info_values(infos, self.coordinates)
        elif callable(self.coordinates):
            values = np.asarray(self.coordinates(observations, infos), dtype=np.float64)
        else:
            values = _entries(observations, tuple(self.coordinates or ()))
        if values.ndim != 2 or values.shape[1] != len(self.axes):
            raise ValueError(f"coordinates must have the shape (n, {len(self.axes)}), got {values.shape}")
        return values

    def describe(self) -> str:
        """The axes in one line: `position -1.2 … 0.6 by 0.05, velocity -0.07 … 0.07 by 0.005`."""
        return ", ".join(
            f"{axis.name} by {axis.size:.4g}"
            if axis.bins is None
            else f"{axis.name} {axis.low:.4g} … {axis.high:.4g} by {axis.size:.4g}"
            for axis in self.axes
        )


def _info_values(infos: Infos, key: str) -> Array:
    try:
        return np.array([info[key] for info in infos], dtype=np.float64)
    except KeyError:
        known = sorted({name for info in infos for name in info})
        raise ValueError(
            f"the environments' infos hold no {key!r} (they hold: {', '.join(known) or 'nothing'}); "
            "for MiniGrid wrap each environment in revd.envs.agent_position.AgentPosition, or count other cells"
        ) from None


def _entries(observations: Any, entries: tuple[int, ...]) -> Array:
    if isinstance(observations, dict):
        raise ValueError(
            f"observations are a dict of {', '.join(observations)}: "
            "give the coordinates as a function (observations, infos) -> (n, d)"
        )
    array = np.asarray(observations, dtype=np.float64)
    flat = array.reshape(len(array), -1)
    if max(entries) >= flat.shape[1] or min(entries) < 0:
        raise ValueError(f"observations have {flat.shape[1]} entries, 0 … {flat.shape[1] - 1}; there are no {entries}")
    return flat[:, list(entries)]
