"""Writing the figures of what was visited: curves, and a heat map for each task with a plane."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from revd.analysis.drawing.coverage_curves import coverage_figure
from revd.analysis.drawing.heat_maps import heat_map_figure
from revd.analysis.drawing.styles import Style
from revd.analysis.reading.runs import load_run
from revd.analysis.statistics.coverage import CoverageData
from revd.analysis.statistics.grouping import setting
from revd.analysis.statistics.visit_maps import VisitMaps, visit_maps
from revd.analysis.writing.csv_export import CURVE_COLUMNS, Row, curve_rows, write_csv
from revd.analysis.writing.figure_files import ImageFiles, OnWritten, write_images
from revd.analysis.writing.image_files import save_figure

NAME = "coverage"


@dataclass(frozen=True, kw_only=True)
class CoverageFiles:
    """The files of the curves, and those of each task's heat map."""

    data: CoverageData
    curves: ImageFiles
    maps: tuple[tuple[VisitMaps, ImageFiles], ...]

    @property
    def images(self) -> list[ImageFiles]:
        """All images."""
        return [self.curves, *(files for _, files in self.maps)]


def write_coverage(
    data: CoverageData, directory: Path, *, styles: Mapping[str, Style], on_written: OnWritten = lambda path: None
) -> CoverageFiles | None:
    """Write the figures of what was visited; None if no run counted it."""
    if not data.curves:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    csv = write_csv(directory / f"{NAME}.csv", CURVE_COLUMNS, curve_rows(data.curves))
    curves = write_images(coverage_figure(data.curves, styles=styles), csv)
    on_written(curves.png)
    maps = []
    for found in data.maps:
        name = re.sub(r"[^\w.-]+", "-", f"{NAME}-{found.setting}")
        csv = write_csv(directory / f"{name}.csv", map_columns(found), map_rows(found))
        maps.append((found, write_images(heat_map_figure(found), csv)))
        on_written(maps[-1][1].png)
    return CoverageFiles(data=data, curves=curves, maps=tuple(maps))


def write_heat_map(run: Path, path: Path) -> Path:
    """Draw the visits of one run directory into a file (.png, .pdf, …); a ValueError if it has no visits to draw."""
    loaded, notes = load_run(run), list[str]()
    maps = visit_maps(setting(loaded), [loaded], notes)
    if maps is None:
        raise ValueError("; ".join([f"{str(run)!r} has no visits to draw", *notes]))
    return save_figure(heat_map_figure(maps), path)


def map_columns(maps: VisitMaps) -> tuple[str, ...]:
    """Columns of `map_rows`: the coordinates are the middles of the cells' intervals."""
    return "method", "steps", *(axis.name for axis in maps.plane), "visits"


def map_rows(maps: VisitMaps) -> Iterator[Row]:
    """A row for each visited cell of each stage."""
    for method, stages in maps.methods.items():
        for stage in stages:
            for cell in np.argwhere(stage.visits):
                yield method, stage.steps, *_middle(maps, cell), stage.visits[tuple(cell)]


def _middle(maps: VisitMaps, cell: np.ndarray) -> Iterator[float]:
    for axis, first, index in zip(maps.plane, maps.origin, cell, strict=True):
        yield axis.edge(first + int(index) + 0.5)
