"""Learning curves of one task with every seed, and helpers for all figures."""

import math
import textwrap
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter

from revd.analysis.drawing.styles import method_styles
from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.curves import WINDOW, RangeCurve, range_curve
from revd.analysis.statistics.grouping import group_by

_CAPTION_SIZE = 8.0
# Width of a character and height of a line, both relative to the font size.
_CHARACTER, _LINE = 0.56, 1.3


def draw_range_curve(axes: Axes, curve: RangeCurve, *, label: str, colour: str) -> Axes:
    """Add one method: its mean as a line, its range over seeds as a band, each seed as a thin line."""
    if len(curve.curves) > 1:
        axes.fill_between(curve.steps, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(curve.steps, curve.curves.T, color=colour, alpha=0.45, linewidth=0.7)
    axes.plot(curve.steps, curve.mean, color=colour, linewidth=2.0, label=label)
    return axes


def draw_methods(axes: Axes, methods: Mapping[str, RangeCurve], *, threshold: float | None = None) -> Axes:
    """Add all methods, and a dotted line at the threshold."""
    styles = method_styles(methods)
    for method, curve in methods.items():
        seeds = len(curve.curves)
        label = f"{method} ({seeds} seed{'s' if seeds > 1 else ''})"
        draw_range_curve(axes, curve, label=label, colour=styles[method].colour)
    if threshold is not None:
        axes.axhline(threshold, color="0.4", linewidth=0.9, linestyle=(0, (2, 3)), zorder=0)
    return axes


def learning_curves(runs: Sequence[RecordedRun], *, threshold: float | None = None, window: int = WINDOW) -> Figure:
    """A figure of all methods; the runs must be of one task."""
    runs = [run for run in runs if len(run.episodes.returns)]
    tasks = sorted({run.task for run in runs})
    if len(tasks) != 1:
        raise ValueError(f"runs must be of exactly one task and hold finished episodes, got tasks {tasks}")
    methods = {
        method: range_curve(
            [run.episodes for run in group],
            total_steps=max(run.total_steps for run in group),
            window=window,
        )
        for method, group in group_by(runs, lambda run: run.label).items()
    }
    figure = new_figure(6.4, 4.0)
    axes = draw_methods(figure.add_subplot(), methods, threshold=threshold)
    style_steps(axes, title=tasks[0], last=max(run.total_steps for run in runs))
    axes.set_xlabel("environment steps")
    axes.set_ylabel(f"return, mean of the last {window} episodes")
    axes.legend(frameon=False, loc="best", title="mean, band: min to max", title_fontsize="small", alignment="left")
    return figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, sized in inches, that needs no display and no global state."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08))
    FigureCanvasAgg(figure)
    return figure


def style_axes(axes: Axes, *, title: str) -> Axes:
    """Style a panel."""
    axes.set_title(title, loc="left", fontweight="bold", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def style_steps(axes: Axes, *, title: str, last: float) -> Axes:
    """Style a panel over environment steps from 0 to `last`."""
    style_axes(axes, title=title)
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.set_xlim(0, last)
    return axes


def grid_shape(panels: int) -> tuple[int, int]:
    """Rows and columns: at most three columns, and 2 x 2 for four."""
    columns = 2 if panels == 4 else min(panels, 3)
    return math.ceil(panels / columns), columns


def captioned_figure(width: float, height: float, caption: str) -> tuple[Figure, SubFigure]:
    """A figure with a caption at the bottom, and the part above the caption to draw into.

    That part is `width` by `height` inches.
    """
    lines = textwrap.wrap(caption, int(width * 72 / (_CAPTION_SIZE * _CHARACTER)) - 4)
    room = (len(lines) + 1) * _LINE * _CAPTION_SIZE / 72
    figure = new_figure(width, height + room)
    parts = figure.add_gridspec(2, 1, height_ratios=(height, room))
    body, below = figure.add_subfigure(parts[0]), figure.add_subfigure(parts[1])
    left = 0.1 / width
    below.text(left, 0.9, "\n".join(lines), fontsize=_CAPTION_SIZE, color="0.35", va="top", linespacing=_LINE)
    return figure, body


def title_figure(body: SubFigure, title: str) -> None:
    """Write a title above all panels, aligned to the left."""
    body.suptitle(title, x=0.1 / body.figure.get_size_inches()[0], ha="left", fontsize="large")


def _thousands(steps: float, position: int | None) -> str:
    if steps >= 1e6:
        return f"{steps / 1e6:g}M"
    return f"{steps / 1e3:g}k" if steps >= 1e3 else f"{steps:g}"
