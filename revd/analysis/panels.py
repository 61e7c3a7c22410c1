"""The paper's result figures: a panel for each task, mean line and standard-deviation band over seeds."""

import math
import re
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from revd.analysis.curves import WINDOW, Curve
from revd.analysis.figures import captioned_figure, style_steps, title_figure
from revd.analysis.groups import suite_of
from revd.analysis.results import Result
from revd.analysis.styles import Style

_PANEL_WIDTH, _PANEL_HEIGHT, _MARGIN = 3.3, 2.35, 0.9


def draw_curve(axes: Axes, curve: Curve, *, style: Style) -> Axes:
    """Add one method: its mean as a line, one standard deviation to both sides as a band, within the seen returns."""
    if curve.seeds > 1:
        axes.fill_between(curve.steps, curve.low, curve.high, color=style.colour, alpha=0.18, linewidth=0)
    axes.plot(curve.steps, curve.mean, color=style.colour, linestyle=style.dashes, linewidth=1.6)
    return axes


def draw_task(axes: Axes, task: str, curves: Mapping[str, Curve], *, styles: Mapping[str, Style]) -> Axes:
    """Add all methods of one task; say so if there are none."""
    for method, curve in curves.items():
        draw_curve(axes, curve, style=styles[method])
    style_steps(axes, title=pretty_task(task), last=max((curve.steps[-1] for curve in curves.values()), default=1.0))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))
    if not curves:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "no finished episodes", ha="center", va="center", color="0.5", transform=axes.transAxes)
    return axes


def curve_figure(result: Result, *, styles: Mapping[str, Style], window: int = WINDOW) -> Figure:
    """The whole figure: panels, one legend, and what line and band are."""
    tasks = result.selection.tasks
    rows, columns = grid_shape(len(tasks))
    width, height = max(columns * _PANEL_WIDTH, 5.0), rows * _PANEL_HEIGHT + _MARGIN
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
    _add_legend(body, result, styles, width)
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
    )


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


def _add_legend(body: SubFigure, result: Result, styles: Mapping[str, Style], width: float) -> None:
    shown = [
        method for method in result.selection.methods if any(method in curves for curves in result.curves.values())
    ]
    handles = [Line2D([], [], color=styles[name].colour, linestyle=styles[name].dashes, linewidth=2) for name in shown]
    # As many columns as fit: labels of variants are long.
    columns = int(np.clip(width / (0.8 + 0.085 * max(map(len, shown))), 1, len(shown)))
    body.legend(handles, shown, loc="outside lower center", ncols=columns, frameon=False, handlelength=2.6)
