"""The state of a counter as arrays and JSON, and its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from revd.arrays import Array
from revd.coverage.grid import Axis
from revd.coverage.keys import key_pairs
from revd.coverage.stages import Stage, Visits

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "revd-visits-1"
_LIMIT = 2**63
#: The numbers of an axis must be smaller, so that it can be drawn.
_AXIS_LIMIT = 1e12


@dataclass(frozen=True, kw_only=True, eq=False)
class CounterState:
    """Everything that a counter needs to continue.

    Attributes:
        description: The cells in one line; empty in files from before it was saved.
        steps: Environment steps of the training so far.
        tables: Keys and counts of all cells, and of those of the plane.
        is_full: Whether a cell had no room in the first or the second table.
        interval: Steps between two stages.
        width: Integers of a cell that a function returned, 0 for texts; None before its first batch.
        plane: The axes of the plane.
        stages: The stages so far.
    """

    description: str
    steps: int
    tables: Mapping[str, Array]
    is_full: tuple[bool, bool]
    interval: int
    width: int | None
    plane: tuple[Axis, Axis] | None
    stages: tuple[Stage, ...]

    @property
    def arrays(self) -> dict[str, Array]:
        """All arrays by name; those of the stages are one after the other."""
        cells = [np.empty((0, 2), np.int32), *(stage.cells for stage in self.stages)]
        visits = [np.empty(0, np.int64), *(stage.visits for stage in self.stages)]
        return {**self.tables, "stage_cells": np.concatenate(cells), "stage_visits": np.concatenate(visits)}

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The arrays as tensors, which files and checkpoints hold."""
        import torch

        return {name: torch.from_numpy(array) for name, array in self.arrays.items()}

    @property
    def values(self) -> dict[str, Any]:
        """Everything else, in JSON's types."""
        return {
            "description": self.description,
            "steps": self.steps,
            "is_full": list(self.is_full),
            "interval": self.interval,
            "width": self.width,
            "plane": None if self.plane is None else [asdict(axis) for axis in self.plane],
            "stages": [[stage.steps, stage.distinct, len(stage.visits)] for stage in self.stages],
        }

    @property
    def visits(self) -> Visits | None:
        """The plane and its visits at all stages and now; None without a plane."""
        if self.plane is None:
            return None
        stages = self.stages
        if not stages or stages[-1].steps < self.steps:
            stages = (*stages, self.stage())
        return Visits(plane=self.plane, stages=stages)

    def stage(self) -> Stage:
        """The visits of the plane by now."""
        return Stage(
            steps=self.steps,
            distinct=len(self.tables["keys"]),
            cells=key_pairs(self.tables["map_keys"]).astype(np.int32),
            visits=self.tables["map_counts"].copy(),
        )

    @classmethod
    def of(cls, arrays: Mapping[str, Array], values: Mapping[str, Any]) -> CounterState:
        """The inverse of `arrays` and `values`; a ValueError if they are none."""
        try:
            plane, width = values["plane"], values["width"]
            return cls(
                description=str(values.get("description", "")),
                steps=_natural("steps", values["steps"]),
                tables=_table(arrays, "keys", "counts") | _table(arrays, "map_keys", "map_counts"),
                is_full=(bool(values["is_full"][0]), bool(values["is_full"][1])),
                interval=max(_natural("interval", values["interval"]), 1),
                width=None if width is None else _natural("width", width),
                plane=None if plane is None else (_axis(plane[0]), _axis(plane[1])),
                stages=tuple(_stages(arrays["stage_cells"], arrays["stage_visits"], values["stages"])),
            )
        except (KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
            raise ValueError(f"these are no saved visits: {type(error).__name__}: {error}") from error


def write_visits(path: str | PathLike[str], state: CounterState) -> None:
    """Write a state to a safetensors file with a checksum."""
    # Imported here and below, because it loads torch, which counting does not need.
    from revd.storage.tensor_file import write_tensors

    write_tensors(path, state.tensors, {"format": FORMAT, **state.values})


def read_visits(path: str | PathLike[str]) -> CounterState:
    """Read a file of `write_visits`; a ValueError if it is damaged or another file."""
    from revd.storage.tensor_file import read_tensors

    tensors, values = read_tensors(path)
    if values.pop("format", None) != FORMAT:
        raise ValueError(f"{path} is no file of visits")
    return CounterState.of({name: tensor.numpy() for name, tensor in tensors.items()}, values)


def _natural(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value < _LIMIT:
        raise ValueError(f"{name} of the saved visits must be an integer of at least 0, got {value!r}")
    return value


def _axis(values: Mapping[str, Any]) -> Axis:
    for name in ("size", "low", "high"):
        value = values.get(name)
        if value is not None and not abs(value) < _AXIS_LIMIT:
            raise ValueError(f"{name} of an axis of the saved visits must lie within ± {_AXIS_LIMIT:g}, got {value:g}")
    return Axis(**values)


def _table(arrays: Mapping[str, Array], keys: str, counts: str) -> dict[str, Array]:
    """Two arrays of a table: distinct keys in order, and a count of at least 1 for each."""
    found = {name: _checked(name, arrays[name], np.int64, ndim=1) for name in (keys, counts)}
    if len(found[keys]) != len(found[counts]) or (np.diff(found[keys]) <= 0).any() or (found[counts] < 1).any():
        raise ValueError(f"{keys} of the saved visits must be ascending, with one count of at least 1 for each")
    return found


def _stages(cells: Array, visits: Array, listed: Sequence[Sequence[Any]]) -> Iterator[Stage]:
    cells, visits = _checked("stage_cells", cells, np.int32, ndim=2), _checked("stage_visits", visits, np.int64, ndim=1)
    numbers = [tuple(_natural("stages", value) for value in entry) for entry in listed]
    ends = np.cumsum([0, *(length for _, _, length in numbers)])
    if not len(cells) == len(visits) == ends[-1] or cells.shape[1] != 2 or (visits < 1).any():
        raise ValueError("the stages of the saved visits must have two coordinates and a count of each cell")
    for (steps, distinct, _), start, end in zip(numbers, ends, ends[1:], strict=False):
        yield Stage(steps=steps, distinct=distinct, cells=cells[start:end], visits=visits[start:end])


def _checked(name: str, array: Array, dtype: type, *, ndim: int) -> Array:
    if array.dtype != dtype or array.ndim != ndim:
        raise ValueError(
            f"{name} of the saved visits must be {ndim}-d {dtype.__name__}, got {array.ndim}-d {array.dtype}"
        )
    return array
