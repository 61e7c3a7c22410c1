"""Figures of searches: the score of every trial against each parameter."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from revd.analysis.drawing.captions import search_caption, search_title
from revd.analysis.drawing.figures import captioned_figure, grid_shape, style_axes, title_figure
from revd.analysis.drawing.styles import COLOURS
from revd.analysis.reading.searches import RecordedTrial, Search, SearchedParameter

_PANEL_WIDTH, _PANEL_HEIGHT, _MARGIN = 3.6, 2.7, 0.9
#: How far trials with the same value are spread, in each direction.
_SPREAD = 0.28
_GOLDEN = (5**0.5 - 1) / 2
#: Marks are smaller if there are more trials than this.
_MANY_TRIALS = 40
_TWO_DECADES = 100

FAILED, FIRST, BEST = "failed", "first trial", "best"
#: Plot options of each kind of mark, from the bottom layer to the top; the first three are states of trials.
_MARKS: Mapping[str, dict[str, Any]] = {
    "pruned": {"marker": "x", "color": "0.6", "markersize": 5.0},
    "running": {"marker": "o", "color": "0.6", "markersize": 5.0, "fillstyle": "none"},
    "finished": {"marker": "o", "color": COLOURS[0], "markersize": 6.5, "alpha": 0.75, "markeredgewidth": 0},
    FAILED: {"marker": "|", "color": "#B00020", "markersize": 9.0, "markeredgewidth": 1.5},
    FIRST: {"marker": "o", "color": "black", "markersize": 10.0, "fillstyle": "none", "markeredgewidth": 1.2},
    BEST: {"marker": "*", "color": COLOURS[1], "markersize": 13.0, "markeredgecolor": "white"},
}


def search_figure(search: Search) -> Figure:
    """A figure with a panel for each parameter, one axis of scores and a legend of the marks."""
    rows, columns = grid_shape(len(search.parameters))
    width, height = max(columns * _PANEL_WIDTH, 5.5), rows * _PANEL_HEIGHT + _MARGIN
    figure, body = captioned_figure(width, height, search_caption(search))
    grid = body.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for axes, parameter in zip(grid, search.parameters, strict=False):
        draw_parameter(axes, search, parameter)
    for axes in grid[len(search.parameters) :]:
        axes.remove()
    title_figure(body, search_title(search))
    body.supylabel(search.metric, fontsize="medium")
    handles = [_legend_handle(kind) for kind in _kinds(search)]
    body.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def draw_parameter(axes: Axes, search: Search, parameter: SearchedParameter) -> Axes:
    """Add the panel of one parameter: a mark for each trial."""
    style_axes(axes, title=parameter.name)
    values = [] if parameter.bounds else _sort_values([trial.values[parameter.name] for trial in search.trials])
    for kind in _kinds(search):
        trials = [trial for trial in search.trials if kind in _kinds_of(trial, search)]
        positions = [_position(trial, parameter, values) for trial in trials]
        # Failed trials have no score: they are marked at the lower edge.
        transform = axes.get_xaxis_transform() if kind == FAILED else axes.transData
        heights = [0.02 if kind == FAILED or trial.score is None else trial.score for trial in trials]
        axes.plot(positions, heights, transform=transform, **_mark_options(kind, len(search.trials)))
    if parameter.bounds is None:
        axes.set_xticks(range(len(values)), values)
        axes.set_xlim(-0.5, len(values) - 0.5)
    else:
        _set_scale(axes, *parameter.bounds, is_log=parameter.is_log)
    return axes


def _kinds_of(trial: RecordedTrial, search: Search) -> list[str]:
    """The marks of a trial, from the bottom layer to the top."""
    if trial.state == FAILED:
        return [FAILED]
    if trial.score is None:
        return []
    kinds = [trial.state] if trial.state in _MARKS else []
    return kinds + [FIRST] * (trial.number == 0) + [BEST] * (trial in search.best)


def _kinds(search: Search) -> list[str]:
    """The kinds of marks in this search, from the bottom layer to the top."""
    found = {kind for trial in search.trials for kind in _kinds_of(trial, search)}
    return [kind for kind in _MARKS if kind in found]


def _sort_values(values: Sequence[str]) -> list[str]:
    """Numbers in order, then words."""
    return sorted(set(values), key=lambda value: (number if np.isfinite(number := _number(value)) else np.inf, value))


def _position(trial: RecordedTrial, parameter: SearchedParameter, values: Sequence[str]) -> float:
    """Horizontal position of a trial; trials with the same value of a list are spread side by side."""
    value = trial.values[parameter.name]
    if parameter.bounds is not None:
        return _number(value)
    # Steps of the golden ratio fill the width evenly for any number of trials.
    return values.index(value) + _SPREAD * (2 * (trial.number * _GOLDEN % 1) - 1)


def _set_scale(axes: Axes, low: float, high: float, *, is_log: bool) -> None:
    """Show the whole searched range, with a margin so that marks at its ends are complete."""
    if not is_log:
        room = 0.04 * (high - low)
        axes.set_xlim(low - room, high + room)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
        return
    room = (high / low) ** 0.04
    axes.set_xscale("log")
    axes.set_xlim(low / room, high * room)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < _TWO_DECADES else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _mark_options(kind: str, trials: int) -> dict[str, Any]:
    options = {"linestyle": "none", **_MARKS[kind]}
    if trials > _MANY_TRIALS and kind not in (FIRST, BEST):
        options["markersize"] *= 0.7
    return options


def _legend_handle(kind: str) -> Line2D:
    return Line2D([], [], label=kind, **_mark_options(kind, 0))


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return float("nan")
