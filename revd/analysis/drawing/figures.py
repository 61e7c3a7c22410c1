"""The demonstration's learning curves, and what all figures share. Only `save_figure` touches files."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter

from revd.analysis.drawing.styles import method_styles
from revd.analysis.reading.runs import Run
from revd.analysis.statistics.curves import WINDOW, Band, band
from revd.analysis.statistics.method_summary import group_by_method

_CAPTION_SIZE = 8.0
# Width of a character of the default font in points, for each point of its size, and the height of a line.
_CHARACTER, _LINE = 0.56, 1.3


def draw_band(axes: Axes, curve: Band, *, label: str, colour: str) -> Axes:
    """Add one method: its mean as a line, its range over seeds as a band, each seed as a thin line."""
    if len(curve.curves) > 1:
        axes.fill_between(curve.steps, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(curve.steps, curve.curves.T, color=colour, alpha=0.45, linewidth=0.7)
    axes.plot(curve.steps, curve.mean, color=colour, linewidth=2.0, label=label)
    return axes


def draw_methods(axes: Axes, methods: Mapping[str, Band], *, threshold: float | None = None) -> Axes:
    """Add all methods, and a dotted line at the return they are measured by."""
    styles = method_styles(methods)
    for method, curve in methods.items():
        seeds = len(curve.curves)
        label = f"{method} ({seeds} seed{'s' if seeds > 1 else ''})"
        draw_band(axes, curve, label=label, colour=styles[method].colour)
    if threshold is not None:
        axes.axhline(threshold, color="0.4", linewidth=0.9, linestyle=(0, (2, 3)), zorder=0)
    return axes


def learning_curves(runs: Sequence[Run], *, threshold: float | None = None, window: int = WINDOW) -> Figure:
    """A figure of all methods among runs of one task."""
    runs = [run for run in runs if len(run.episodes.returns)]
    tasks = sorted({run.task for run in runs})
    if len(tasks) != 1:
        raise ValueError(f"runs must be of exactly one task and hold finished episodes, got tasks {tasks}")
    methods = {
        method: band(
            [run.episodes for run in group],
            total_steps=max(run.total_steps for run in group),
            window=window,
        )
        for method, group in group_by_method(runs).items()
    }
    figure = new_figure(6.4, 4.0)
    axes = draw_methods(figure.add_subplot(), methods, threshold=threshold)
    style_steps(axes, title=tasks[0], last=max(run.total_steps for run in runs))
    axes.set_xlabel("environment steps")
    axes.set_ylabel(f"return, mean of the last {window} episodes")
    axes.legend(frameon=False, loc="best", title="mean, band: min to max", title_fontsize="small", alignment="left")
    return figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches that needs no display and no global state."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08))
    FigureCanvasAgg(figure)
    return figure


def style_axes(axes: Axes, *, title: str) -> Axes:
    """The look of all panels."""
    axes.set_title(title, loc="left", fontweight="bold", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def style_steps(axes: Axes, *, title: str, last: float) -> Axes:
    """The look of panels over environment steps, from 0 to `last`."""
    style_axes(axes, title=title)
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.set_xlim(0, last)
    return axes


def captioned_figure(width: float, height: float, caption: str) -> tuple[Figure, SubFigure]:
    """A figure with small print below everything, and the part of so many inches above it, to draw into."""
    lines = textwrap.wrap(caption, int(width * 72 / (_CAPTION_SIZE * _CHARACTER)) - 4)
    room = (len(lines) + 1) * _LINE * _CAPTION_SIZE / 72
    figure = new_figure(width, height + room)
    parts = figure.add_gridspec(2, 1, height_ratios=(height, room))
    body, below = figure.add_subfigure(parts[0]), figure.add_subfigure(parts[1])
    left = 0.1 / width
    below.text(left, 0.9, "\n".join(lines), fontsize=_CAPTION_SIZE, color="0.35", va="top", linespacing=_LINE)
    return figure, body


def title_figure(body: SubFigure, title: str) -> None:
    """The title above all panels, over their left edge."""
    body.suptitle(title, x=0.1 / body.figure.get_size_inches()[0], ha="left", fontsize="large")


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure in the format that the name's ending says; equal figures give equal files."""
    undated = {"CreationDate": None} if path.suffix == ".pdf" else None
    for text in figure.findobj(Text):
        # A task may be called anything; a dollar sign in its name begins no formula.
        assert isinstance(text, Text)
        text.set_parse_math(False)
    # Type 42 keeps the text of a PDF text: it can be searched, and journals accept it.
    with mpl.rc_context({"pdf.fonttype": 42}):
        figure.savefig(path, dpi=200, metadata=undated)
    return path


def _thousands(steps: float, position: int | None) -> str:
    if steps >= 1e6:
        return f"{steps / 1e6:g}M"
    return f"{steps / 1e3:g}k" if steps >= 1e3 else f"{steps:g}"
