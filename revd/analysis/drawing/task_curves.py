"""The paper's result figures: a panel for each task, mean line and standard-deviation band over seeds."""

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from revd.analysis.drawing.figures import captioned_figure, style_steps, title_figure
from revd.analysis.drawing.styles import Style, distinct_styles
from revd.analysis.markdown import plural
from revd.analysis.reading.grouping import suite_of
from revd.analysis.statistics.curves import WINDOW, Curve
from revd.analysis.statistics.figure_data import Result

#: So many methods are told apart by a legend; of more, the best, and the others are grey.
MOST_METHODS = 8

_PANEL_WIDTH, _PANEL_HEIGHT, _MARGIN = 3.3, 2.35, 0.9
_LEGEND_ROW = 0.24
_OTHERS = "0.82"


def draw_curve(axes: Axes, curve: Curve, *, style: Style) -> Axes:
    """Add one method: its mean as a line, one standard deviation to both sides as a band, within the seen returns."""
    if curve.seeds > 1:
        axes.fill_between(curve.steps, curve.low, curve.high, color=style.colour, alpha=0.18, linewidth=0)
    axes.plot(curve.steps, curve.mean, color=style.colour, linestyle=style.dashes, linewidth=1.6)
    return axes


def draw_task(axes: Axes, task: str, curves: Mapping[str, Curve], *, styles: Mapping[str, Style]) -> Axes:
    """Add all methods of one task, those without a style as grey lines behind; say so if there are none."""
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


def curve_figure(result: Result, *, styles: Mapping[str, Style], window: int = WINDOW) -> Figure:
    """The whole figure: panels, one legend, and what line and band are."""
    if len(result.drawn) > MOST_METHODS:
        styles = distinct_styles(result.best_methods(MOST_METHODS))
    tasks = result.selection.tasks
    rows, columns = grid_shape(len(tasks))
    width = max(columns * _PANEL_WIDTH, 5.0)
    handles = _legend(result, styles)
    per_row = _legend_columns(handles, width)
    height = rows * _PANEL_HEIGHT + _MARGIN + _LEGEND_ROW * (math.ceil(len(handles) / per_row) - 1)
    figure, body = captioned_figure(width, height, curve_caption(result, window=window))
    grid = body.subplots(rows, columns, squeeze=False).ravel()
    for axes, task in zip(grid, tasks, strict=False):
        draw_task(axes, task, result.curves[task], styles=styles)
    for axes in grid[max(len(tasks) - columns, 0) : len(tasks)]:
        axes.set_xlabel("environment steps")
    for axes in grid[len(tasks) :]:
        axes.remove()
    title_figure(body, result.selection.title)
    body.supylabel("episode return", fontsize="medium")
    body.legend(handles=handles, loc="outside lower center", ncols=per_row, frameon=False, handlelength=2.6)
    return figure


def curve_caption(result: Result, *, window: int = WINDOW) -> str:
    """What the figure shows, in one paragraph."""
    curves = [curve for task in result.curves.values() for curve in task.values()]
    seeds = sorted({curve.seeds for curve in curves})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    unfinished = any(not run.finished for run in result.selection.runs)
    return (
        f"Line: mean over seeds ({count} of each method and task). Band: one sample standard deviation (n - 1) to both "
        "sides, cut off at the smallest and the largest return of any episode on the task. "
        f"Episode return at a step: mean of the last {window} episodes that had ended by then. "
        "A curve ends where the shortest of its runs does."
        + (" Some runs are unfinished or failed." if unfinished else "")
        + few_shown(len(result.drawn), by="final return")
    )


def few_shown(methods: int, *, by: str) -> str:
    """A sentence where there are more methods than a legend can tell apart; else nothing."""
    if methods <= MOST_METHODS:
        return ""
    return f" In colour: the {MOST_METHODS} best of {methods} by {by}; the numbers of all are in the CSV file."


def pretty_task(task: str) -> str:
    """`bullet/half-cheetah` -> `Half Cheetah`; a plain Gymnasium id stays as it is."""
    if suite_of(task) == "gymnasium":
        return task
    return " ".join(_pretty_word(word) for word in task.partition("/")[2].split("-"))


def grid_shape(panels: int) -> tuple[int, int]:
    """Rows and columns: at most three columns, and 2 x 2 for four."""
    columns = 2 if panels == 4 else min(panels, 3)
    return math.ceil(panels / columns), columns


def _pretty_word(word: str) -> str:
    # 2d -> 2D and s3r1 -> S3R1, while 8x8 is a size.
    if re.fullmatch(r"\d+x\d+", word):
        return word
    return word.capitalize() if word.isalpha() else word.upper()


def _legend(result: Result, styles: Mapping[str, Style]) -> list[Line2D]:
    """A line for each method that has a style, and one for all others."""
    lines = [
        Line2D([], [], color=styles[name].colour, linestyle=styles[name].dashes, linewidth=2, label=name)
        for name in result.drawn
        if name in styles
    ]
    others = len(result.drawn) - len(lines)
    return lines + [Line2D([], [], color=_OTHERS, linewidth=2, label=plural(others, "other"))] * bool(others)


def _legend_columns(handles: Sequence[Line2D], width: float) -> int:
    """As many as fit: labels of variants are long."""
    longest = max(len(str(line.get_label())) for line in handles)
    return int(np.clip(width / (0.8 + 0.085 * longest), 1, len(handles)))
