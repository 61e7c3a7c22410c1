"""Heat maps of visits: a row for each method, a column for each stage of the training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from revd.analysis.drawing.captions import MAX_METHODS, plural, pretty_setting
from revd.analysis.drawing.figures import captioned_figure, title_figure
from revd.analysis.statistics.visit_maps import StageMap, VisitMaps
from revd.coverage.grid import Axis

_PANEL_WIDTH, _PANEL_HEIGHT, _MARGIN = 2.2, 2.0, 0.8
#: White is left for cells that were never visited, so the palest colour must differ from it.
_COLOURS = "viridis_r"


def draw_visits(
    axes: Axes, stage: StageMap, *, plane: tuple[Axis, Axis], origin: tuple[int, int], norm: LogNorm
) -> AxesImage:
    """Draw one map; cells that were never visited stay white."""
    x, y = plane
    width, height = stage.visits.shape
    left, right = x.edge(origin[0]), x.edge(origin[0] + width)
    bottom, top = y.edge(origin[1]), y.edge(origin[1] + height)
    image = axes.imshow(
        np.ma.masked_equal(stage.visits.T, 0),
        origin="lower",
        extent=(left, right, bottom, top),
        aspect="equal" if _are_alike(plane) else "auto",
        interpolation="nearest",
        cmap=_COLOURS,
        norm=norm,
    )
    if y.downwards:
        axes.invert_yaxis()
    if x.downwards:
        axes.invert_xaxis()
    for axis, coordinate in ((axes.xaxis, x), (axes.yaxis, y)):
        axis.set_major_locator(MaxNLocator(nbins=4, integer=coordinate.whole))
    axes.tick_params(labelsize="small")
    return image


def heat_map_figure(maps: VisitMaps) -> Figure:
    """A figure of all methods of a task, with one scale of colours and a caption."""
    methods = list(maps.methods)[:MAX_METHODS]
    columns = len(maps.methods[methods[0]])
    width, height = columns * _PANEL_WIDTH + 1.2, len(methods) * _PANEL_HEIGHT + _MARGIN
    figure, body = captioned_figure(width, height, heat_map_caption(maps))
    grid = body.subplots(len(methods), columns, squeeze=False, sharex=True, sharey=True)
    norm = LogNorm(1, max(2, *(stage.visits.max() for method in methods for stage in maps.methods[method])))
    for row, method in zip(grid, methods, strict=True):
        _draw_row(row, method, maps, norm)
    for axes in grid[-1]:
        axes.set_xlabel(maps.plane[0].label, fontsize="small")
    _add_colour_bar(body, grid)
    title_figure(body, f"Visited states: {pretty_setting(maps.setting)}")
    return figure


def heat_map_caption(maps: VisitMaps) -> str:
    """Describe a heat map."""
    seeds = sorted(set(maps.seeds.values()))
    count = " to ".join(str(number) for number in (seeds[0], *seeds[1:][-1:]))
    summed = "" if seeds == [1] else f", summed over its runs ({count} of each method)"
    left_out = len(maps.methods) - MAX_METHODS
    return (
        f"Colour: visits of a cell since the start of the training{summed}. White: never visited. "
        "Columns: the recorded stages nearest to a quarter, a half, three quarters and the whole of the training. "
        "Cells: distinct ones by then"
        + ("." if seeds == [1] else ", mean over runs.")
        + (f" {plural(left_out, 'method')} left out." if left_out > 0 else "")
    )


def _draw_row(row: Sequence[Axes], method: str, maps: VisitMaps, norm: LogNorm) -> None:
    for axes, stage in zip(row, maps.methods[method], strict=True):
        draw_visits(axes, stage, plane=maps.plane, origin=maps.origin, norm=norm)
        cells = "1 cell" if round(stage.distinct) == 1 else f"{stage.distinct:,.0f} cells"
        axes.set_title(f"{stage.steps:,.0f} steps: {cells}", fontsize="small")
    row[0].set_ylabel(f"{method}\n{maps.plane[1].label}", fontsize="small")


def _add_colour_bar(body: SubFigure, grid: np.ndarray) -> None:
    bar = body.colorbar(grid[0, 0].images[0], ax=grid, pad=0.01, aspect=30)
    bar.set_label("visits", fontsize="small")
    bar.ax.yaxis.set_major_locator(LogLocator())
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.ax.tick_params(labelsize="small")


def _are_alike(plane: tuple[Axis, Axis]) -> bool:
    """Whether a cell is a square, as in a map of positions."""
    return (plane[0].size, plane[0].unit) == (plane[1].size, plane[1].unit)
