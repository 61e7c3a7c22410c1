"""Figures of learning curves: a panel for each task, with mean and standard deviation over seeds."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from revd.analysis.drawing.captions import MAX_METHODS, curve_caption, plural, pretty_task
from revd.analysis.drawing.figures import captioned_figure, grid_shape, style_steps, title_figure
from revd.analysis.drawing.styles import Style, distinct_styles
from revd.analysis.statistics.curves import WINDOW, Curve
from revd.analysis.statistics.figure_data import FigureData

_PANEL_WIDTH, _PANEL_HEIGHT, _MARGIN = 3.3, 2.35, 0.9
_LEGEND_ROW = 0.24
_OTHERS = "0.82"


def draw_curve(axes: Axes, curve: Curve, *, style: Style) -> Axes:
    """Add one method: its mean as a line, one standard deviation to both sides as a band."""
    if curve.seeds > 1:
        axes.fill_between(curve.steps, curve.low, curve.high, color=style.colour, alpha=0.14, linewidth=0)
    axes.plot(curve.steps, curve.mean, color=style.colour, linestyle=style.dashes, linewidth=1.6)
    return axes


def draw_task(axes: Axes, task: str, curves: Mapping[str, Curve], *, styles: Mapping[str, Style]) -> Axes:
    """Add all methods of one task; methods without a style become grey lines in the background."""
    for method, curve in curves.items():
        if method in styles:
            draw_curve(axes, curve, style=styles[method])
        else:
            axes.plot(curve.steps, curve.mean, color=_OTHERS, linewidth=0.8, zorder=0.5)
    style_steps(axes, title=pretty_task(task), last=max((curve.steps[-1] for curve in curves.values()), default=1.0))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    if not curves:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "no finished episodes", ha="center", va="center", color="0.5", transform=axes.transAxes)
    return axes


def curve_figure(data: FigureData, *, styles: Mapping[str, Style], window: int = WINDOW) -> Figure:
    """A figure with a panel for each task, one legend and a caption.

    Of many methods, only the best are in colour.
    """
    if len(data.drawn) > MAX_METHODS:
        styles = distinct_styles(data.best_methods(MAX_METHODS))
    tasks = data.plan.tasks
    rows, columns = grid_shape(len(tasks))
    width = max(columns * _PANEL_WIDTH, 5.0)
    handles = _legend(data, styles)
    per_row = legend_columns(handles, width)
    height = rows * _PANEL_HEIGHT + _MARGIN + _LEGEND_ROW * (math.ceil(len(handles) / per_row) - 1)
    figure, body = captioned_figure(width, height, curve_caption(data, window=window))
    grid = body.subplots(rows, columns, squeeze=False).ravel()
    for axes, task in zip(grid, tasks, strict=False):
        draw_task(axes, task, data.curves[task], styles=styles)
    for axes in grid[max(len(tasks) - columns, 0) : len(tasks)]:
        axes.set_xlabel("environment steps")
    for axes in grid[len(tasks) :]:
        axes.remove()
    title_figure(body, data.plan.title)
    body.supylabel("episode return", fontsize="medium")
    body.legend(handles=handles, loc="outside lower center", ncols=per_row, frameon=False, handlelength=2.6)
    return figure


def _legend(data: FigureData, styles: Mapping[str, Style]) -> list[Line2D]:
    """A line for each method that has a style, and one for all others."""
    lines = [
        Line2D([], [], color=styles[name].colour, linestyle=styles[name].dashes, linewidth=2, label=name)
        for name in data.drawn
        if name in styles
    ]
    others = len(data.drawn) - len(lines)
    return lines + [Line2D([], [], color=_OTHERS, linewidth=2, label=plural(others, "other"))] * bool(others)


def legend_columns(handles: Sequence[Line2D], width: float) -> int:
    """As many columns as fit: labels of variants are long."""
    longest = max(len(str(line.get_label())) for line in handles)
    return int(np.clip(width / (0.8 + 0.085 * longest), 1, len(handles)))
