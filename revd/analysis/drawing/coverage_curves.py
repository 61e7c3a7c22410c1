"""Curves of the distinct cells that methods have visited."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from revd.analysis.drawing.captions import pretty_setting
from revd.analysis.drawing.figures import captioned_figure, grid_shape, style_steps, title_figure
from revd.analysis.drawing.styles import Style
from revd.analysis.drawing.task_curves import draw_curve, legend_columns
from revd.analysis.statistics.curves import Curve, Curves

_PANEL_WIDTH, _PANEL_HEIGHT, _MARGIN = 3.3, 2.35, 0.9

CAPTION = (
    "Distinct cells visited since the start of the training. Line: mean over seeds. Band: one sample standard "
    "deviation (n - 1) to both sides. A curve ends where the shortest of its runs does."
)


def coverage_figure(curves: Curves, *, styles: Mapping[str, Style]) -> Figure:
    """A figure with a panel for each task."""
    rows, columns = grid_shape(len(curves))
    width = max(columns * _PANEL_WIDTH, 5.0)
    figure, body = captioned_figure(width, rows * _PANEL_HEIGHT + _MARGIN, CAPTION)
    grid = body.subplots(rows, columns, squeeze=False).ravel()
    for axes, (task, methods) in zip(grid, curves.items(), strict=False):
        draw_coverage(axes, pretty_setting(task), methods, styles=styles)
    for axes in grid[max(len(curves) - columns, 0) : len(curves)]:
        axes.set_xlabel("environment steps")
    for axes in grid[len(curves) :]:
        axes.remove()
    title_figure(body, "Coverage")
    body.supylabel("distinct cells visited", fontsize="medium")
    labels = dict.fromkeys(method for methods in curves.values() for method in methods)
    handles = [
        Line2D([], [], color=styles[label].colour, linestyle=styles[label].dashes, linewidth=2, label=label)
        for label in labels
    ]
    per_row = legend_columns(handles, width)
    body.legend(handles=handles, loc="outside lower center", ncols=per_row, frameon=False, handlelength=2.6)
    return figure


def draw_coverage(axes: Axes, title: str, curves: Mapping[str, Curve], *, styles: Mapping[str, Style]) -> Axes:
    """Draw the curves of one task."""
    for method, curve in curves.items():
        draw_curve(axes, curve, style=styles[method])
    style_steps(axes, title=title, last=max(curve.steps[-1] for curve in curves.values()))
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return axes
