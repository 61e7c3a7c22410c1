"""How much of a task each method has visited: curves of distinct cells, and maps of visits over the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from revd.analysis.reading.coverage import CoverageSeries, load_coverage
from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.curves import Curve, Curves, step_grid
from revd.analysis.statistics.grouping import group_by, setting
from revd.analysis.statistics.visit_maps import VisitMaps, visit_maps


@dataclass(frozen=True, kw_only=True)
class CoverageResult:
    """The cells that the runs of a method had visited at their ends, and their shares of all cells, if known."""

    setting: str
    method: str
    cells: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class CoverageData:
    """What some runs have visited; all parts are empty if none counted.

    Attributes:
        curves: Distinct cells over the steps, by task with its setting and by method.
        maps: Visits over the training, one for each task with a plane.
        results: The ends of all runs.
        notes: What could not be read or drawn.
    """

    curves: Curves
    maps: tuple[VisitMaps, ...]
    results: tuple[CoverageResult, ...]
    notes: tuple[str, ...] = ()


def analyse_coverage(runs: Sequence[RecordedRun]) -> CoverageData:
    """Read what runs have visited, without failed and damaged ones."""
    usable = [run for run in runs if run.state != "failed" and run.damage is None]
    notes: list[str] = []
    curves: dict[str, Mapping[str, Curve]] = {}
    maps, results = [], []
    for task, group in group_by(usable, setting).items():
        counted = [(run, series) for run in group if (series := load_coverage(run.directory)) is not None]
        if not counted:
            continue
        by_method = dict(_by_method(counted))
        curves[task] = coverage_curves(by_method)
        results += [_result(task, method, found) for method, found in by_method.items()]
        found = visit_maps(task, [run for run, _ in counted], notes)
        maps += [] if found is None else [found]
    return CoverageData(curves=curves, maps=tuple(maps), results=tuple(results), notes=tuple(notes))


def coverage_curves(methods: Mapping[str, Sequence[CoverageSeries]]) -> dict[str, Curve]:
    """One curve for each method; it begins where all its runs have begun and ends where the shortest does."""
    grid = step_grid(max(series.steps[-1] for found in methods.values() for series in found))
    return {method: _curve(found, grid) for method, found in methods.items()}


def _curve(seeds: Sequence[CoverageSeries], grid: np.ndarray) -> Curve:
    first = max(series.steps[0] for series in seeds)
    # A rollout may end beyond the last point of the grid, so the ends of the runs are points too.
    last = min(series.steps[-1] for series in seeds)
    steps = np.append(grid[(grid >= first) & (grid < last)], last)
    values = np.stack([_at(series, steps) for series in seeds])
    deviation = values.std(axis=0, ddof=1) if len(seeds) > 1 else np.full(len(steps), np.nan)
    return Curve(steps=steps, mean=values.mean(axis=0), deviation=deviation, seeds=len(seeds), lowest=0.0)


def _at(series: CoverageSeries, steps: np.ndarray) -> np.ndarray:
    """The cells by each of the steps."""
    return series.cells[np.searchsorted(series.steps, steps, side="right") - 1]


def _by_method(
    counted: Sequence[tuple[RecordedRun, CoverageSeries]],
) -> Iterator[tuple[str, list[CoverageSeries]]]:
    for label in dict.fromkeys(run.label for run, _ in counted):
        yield label, [series for run, series in counted if run.label == label]


def _result(task: str, method: str, found: Sequence[CoverageSeries]) -> CoverageResult:
    return CoverageResult(
        setting=task,
        method=method,
        cells=tuple(float(series.cells[-1]) for series in found),
        shares=tuple(series.share for series in found if series.share is not None),
    )
