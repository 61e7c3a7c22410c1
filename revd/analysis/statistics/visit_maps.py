"""Maps of visits: the visits of a plane's cells at some stages of a training, summed over the runs of a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from revd.analysis.reading.coverage import load_visits
from revd.analysis.reading.runs import RecordedRun
from revd.arrays import Array
from revd.coverage.grid import Axis
from revd.coverage.stages import Stage, Visits

#: The stages of a map: these fractions of the training.
FRACTIONS = (1 / 4, 1 / 2, 3 / 4, 1.0)
#: Most cells of a map, visited or not.
_MAX_CELLS = 2**22


@dataclass(frozen=True, kw_only=True, eq=False)
class StageMap:
    """The visits by some steps, (cells of the first axis, cells of the second), and the mean of distinct cells."""

    steps: float
    distinct: float
    visits: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class VisitMaps:
    """The maps of one task.

    Attributes:
        setting: The task.
        plane: Its axes.
        origin: The indices of the maps' first cell.
        methods: The maps of each method, by stage.
        seeds: Runs of each method.
    """

    setting: str
    plane: tuple[Axis, Axis]
    origin: tuple[int, int]
    methods: Mapping[str, tuple[StageMap, ...]]
    seeds: Mapping[str, int]


def visit_maps(setting: str, runs: Sequence[RecordedRun], notes: list[str]) -> VisitMaps | None:
    """The maps of the runs of one task; None if none has a plane. What is left out is told in `notes`."""
    visits: dict[str, list[Visits]] = {}
    plane = None
    for run in runs:
        found = _load(run, notes)
        if found is None:
            continue
        plane = plane or found.plane
        if found.plane != plane:
            notes.append(f"{setting}: the visits of {run.label}, seed {run.seed}, are of another plane")
            continue
        visits.setdefault(run.label, []).append(found)
    return None if plane is None else map_visits(setting, plane, visits, notes)


def map_visits(
    setting: str, plane: tuple[Axis, Axis], visits: Mapping[str, Sequence[Visits]], notes: list[str]
) -> VisitMaps | None:
    """The maps of several methods, all of the same size; None with a note if that is too large."""
    everything = [found for group in visits.values() for found in group]
    origin, shape = _box(plane, everything)
    if shape[0] * shape[1] > _MAX_CELLS:
        notes.append(f"{setting}: the visited cells lie too far apart for a map ({shape[0]:,} x {shape[1]:,})")
        return None
    last = min(found.stages[-1].steps for found in everything)
    # A short training has few stages, and one of them may be the nearest to several fractions.
    targets = {
        tuple(_nearest(found, fraction * last).steps for found in everything): fraction * last for fraction in FRACTIONS
    }
    return VisitMaps(
        setting=setting,
        plane=plane,
        origin=origin,
        methods={
            method: tuple(_stage_map(group, steps, origin, shape) for steps in targets.values())
            for method, group in visits.items()
        },
        seeds={method: len(group) for method, group in visits.items()},
    )


def _load(run: RecordedRun, notes: list[str]) -> Visits | None:
    try:
        return load_visits(run.directory)
    except (ValueError, OSError) as error:
        notes.append(f"no map of {run.label}, seed {run.seed}: {error}")
        return None


def _box(plane: tuple[Axis, Axis], visits: Sequence[Visits]) -> tuple[tuple[int, int], tuple[int, int]]:
    """First cell and size of a map: the whole axis if it has ends, else what was visited and a cell around it."""
    cells = np.concatenate([found.stages[-1].cells for found in visits]).astype(np.int64)
    low = cells.min(axis=0) - 1
    high = cells.max(axis=0) + 1
    ends = [(0, axis.bins - 1) if axis.bins else (int(low[i]), int(high[i])) for i, axis in enumerate(plane)]
    (first_x, last_x), (first_y, last_y) = ends
    return (first_x, first_y), (last_x - first_x + 1, last_y - first_y + 1)


def _nearest(found: Visits, steps: float) -> Stage:
    return min(found.stages, key=lambda stage: abs(stage.steps - steps))


def _stage_map(group: Sequence[Visits], steps: float, origin: tuple[int, int], shape: tuple[int, int]) -> StageMap:
    """The map of the stages nearest to some steps, one of each run."""
    stages = [_nearest(found, steps) for found in group]
    visits = np.zeros(shape, np.int64)
    for stage in stages:
        x, y = (stage.cells.astype(np.int64) - origin).T
        visits[x, y] += stage.visits
    return StageMap(
        steps=float(np.mean([stage.steps for stage in stages])),
        distinct=float(np.mean([stage.distinct for stage in stages])),
        visits=visits,
    )
