"""A search drawn: the score of every trial against each parameter that was searched."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from revd.analysis.drawing.figures import captioned_figure, style_axes, title_figure
from revd.analysis.drawing.styles import COLOURS
from revd.analysis.drawing.task_curves import grid_shape, pretty_task
from revd.analysis.markdown import plural
from revd.analysis.reading.searches import Search, SearchAxis, Trial

_PANEL_WIDTH, _PANEL_HEIGHT, _MARGIN = 3.6, 2.7, 0.9
#: How far trials with the same choice are moved apart, in each direction.
_SPREAD = 0.28
_GOLDEN = (5**0.5 - 1) / 2
#: With more trials, marks are smaller.
_MANY = 40
_TWO_DECADES = 100

FAILED, FIRST, BEST = "failed", "first trial", "best"
#: From the lowest mark to the uppermost; the first three are what trials are.
_LOOKS: Mapping[str, dict[str, Any]] = {
    "pruned": {"marker": "x", "color": "0.6", "markersize": 5.0},
    "running": {"marker": "o", "color": "0.6", "markersize": 5.0, "fillstyle": "none"},
    "finished": {"marker": "o", "color": COLOURS[0], "markersize": 6.5, "alpha": 0.75, "markeredgewidth": 0},
    FAILED: {"marker": "|", "color": "#B00020", "markersize": 9.0, "markeredgewidth": 1.5},
    FIRST: {"marker": "o", "color": "black", "markersize": 10.0, "fillstyle": "none", "markeredgewidth": 1.2},
    BEST: {"marker": "*", "color": COLOURS[1], "markersize": 13.0, "markeredgecolor": "white"},
}


def search_figure(search: Search) -> Figure:
    """A panel for each parameter, scores on one axis, and what the marks mean."""
    rows, columns = grid_shape(len(search.axes))
    width, height = max(columns * _PANEL_WIDTH, 5.5), rows * _PANEL_HEIGHT + _MARGIN
    figure, body = captioned_figure(width, height, search_caption(search))
    grid = body.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for axes, axis in zip(grid, search.axes, strict=False):
        draw_axis(axes, search, axis)
    for axes in grid[len(search.axes) :]:
        axes.remove()
    title_figure(body, search_title(search))
    body.supylabel(search.metric, fontsize="medium")
    handles = [_legend_handle(kind) for kind in _kinds(search)]
    body.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def search_title(search: Search) -> str:
    """What was searched where, in a few words."""
    names = {(run.method, run.task, run.total_steps) for run in search.runs}
    of = "; ".join(f"{method} on {pretty_task(task)}, {steps:,} steps" for method, task, steps in sorted(names))
    return f"Search {search.directory.resolve().name}" + (f": {of}" if of else "")


def search_caption(search: Search) -> str:
    """What the figure shows, in one paragraph."""
    seeds = f"mean over {search.seeds} seeds" if search.seeds > 1 else "of one seed"
    best = search.best
    if best:
        values = ", ".join(f"{name} {value}" for name, value in best[0].values.items())
        found = f" Best: trial {best[0].number} with {best[0].score:,.2f} ({values})"
        found += f", and {plural(len(best) - 1, 'more trial')} with the same score." if len(best) > 1 else "."
    else:
        found = " All trials that finished have the same score: none is the best." if search.finished else ""
    pruned = any(trial.state == "pruned" for trial in search.trials)
    return (
        f"Each mark is a trial: its {search.metric}, {seeds}. The first trial has the values without a search, where "
        "they lie in the space."
        + (" Pruned trials are at the score that they had when they were stopped, of less training." if pruned else "")
        + found
        + " Trials differ in all parameters at once, and the best of many noisy scores is too good."
    )


def draw_axis(axes: Axes, search: Search, axis: SearchAxis) -> Axes:
    """Add the panel of one parameter: a mark for each trial."""
    style_axes(axes, title=axis.name)
    choices = [] if axis.ends else _choices([trial.values[axis.name] for trial in search.trials])
    for kind in _kinds(search):
        trials = [trial for trial in search.trials if kind in _kinds_of(trial, search)]
        places = [_place(trial, axis, choices) for trial in trials]
        # What failed has no score: it is told at the lower edge.
        transform = axes.get_xaxis_transform() if kind == FAILED else axes.transData
        heights = [0.02 if kind == FAILED or trial.score is None else trial.score for trial in trials]
        axes.plot(places, heights, transform=transform, **_look(kind, len(search.trials)))
    if axis.ends is None:
        axes.set_xticks(range(len(choices)), choices)
        axes.set_xlim(-0.5, len(choices) - 0.5)
    else:
        _scale(axes, *axis.ends, is_log=axis.is_log)
    return axes


def _kinds_of(trial: Trial, search: Search) -> list[str]:
    """What a trial is drawn as, one mark over the other."""
    if trial.state == FAILED:
        return [FAILED]
    if trial.score is None:
        return []
    kinds = [trial.state] if trial.state in _LOOKS else []
    return kinds + [FIRST] * (trial.number == 0) + [BEST] * (trial in search.best)


def _kinds(search: Search) -> list[str]:
    """The kinds that there are, from the lowest mark to the uppermost."""
    found = {kind for trial in search.trials for kind in _kinds_of(trial, search)}
    return [kind for kind in _LOOKS if kind in found]


def _choices(values: Sequence[str]) -> list[str]:
    """Numbers in order, then words."""
    return sorted(set(values), key=lambda value: (number if np.isfinite(number := _number(value)) else np.inf, value))


def _place(trial: Trial, axis: SearchAxis, choices: Sequence[str]) -> float:
    """Where a trial stands; those with the same choice side by side."""
    value = trial.values[axis.name]
    if axis.ends is not None:
        return _number(value)
    # Steps of the golden ratio fill the room evenly, however many trials there are.
    return choices.index(value) + _SPREAD * (2 * (trial.number * _GOLDEN % 1) - 1)


def _scale(axes: Axes, low: float, high: float, *, is_log: bool) -> None:
    """The whole range that was searched, and a little more, so that marks at its ends are whole."""
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


def _look(kind: str, trials: int) -> dict[str, Any]:
    look = {"linestyle": "none", **_LOOKS[kind]}
    if trials > _MANY and kind not in (FIRST, BEST):
        look["markersize"] *= 0.7
    return look


def _legend_handle(kind: str) -> Line2D:
    return Line2D([], [], label=kind, **_look(kind, 0))


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return float("nan")
