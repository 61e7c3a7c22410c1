"""The figure of the worked example: episodes in the plane, and their numbers as bars."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PathCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, FigureBase

from revd.analysis.drawing.styles import COLOURS
from revd.arrays import Array

COLOUR_MAP = "viridis"
#: Empty space around the states of a panel, in units of the plane.
MARGIN = 0.6
#: If most states lie within less than this fraction of a panel, an inset magnifies them.
CROWDED = 0.25
#: Left, bottom, width and height of that inset, in fractions of the panel.
INSET = (0.64, 0.03, 0.34, 0.4)


class ExampleEpisode(Protocol):
    """An episode that was compared with the reference."""

    @property
    def name(self) -> str:
        """Short description of the agent's behaviour."""

    @property
    def states(self) -> Array:
        """Visited states in order of time, (n, 2)."""

    @property
    def bonus(self) -> Array:
        """Bonus of each state, (n,)."""

    @property
    def mean_bonus(self) -> float:
        """Mean bonus over its states."""

    @property
    def mean_unscaled(self) -> float:
        """Mean bonus without the factor L."""

    @property
    def spread(self) -> float:
        """The factor L."""

    @property
    def divergence(self) -> float:
        """Rényi divergence from the reference."""


def example_figure(reference: Array, episodes: Sequence[ExampleEpisode]) -> Figure:
    """Top: the reference and each episode. Bottom: mean bonus with and without L, L, and the divergence."""
    figure = Figure(figsize=(9.6, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    parts = figure.add_gridspec(2, 1, height_ratios=(1.7, 1))
    _draw_plane(figure.add_subfigure(parts[0]), reference, episodes)
    _draw_numbers(figure.add_subfigure(parts[1]), episodes)
    return figure


def draw_reference(axes: Axes, states: Array, *, faint: bool) -> Axes:
    """Add the reference episode; `faint` draws it as the background of another episode."""
    colour = "0.85" if faint else "0.4"
    axes.plot(*states.T, color=colour, linewidth=1.0, zorder=1)
    axes.scatter(states[:, 0], states[:, 1], color=colour, s=14, linewidth=0, zorder=1)
    if not faint:
        _mark_start(axes, states)
    return axes


def draw_episode(axes: Axes, episode: ExampleEpisode, *, norm: Normalize) -> PathCollection:
    """Add an episode: its path, a ring around its first state, and all states coloured by their bonus."""
    axes.plot(*episode.states.T, color="0.6", linewidth=0.7, zorder=2)
    _mark_start(axes, episode.states)
    x, y = episode.states.T
    return axes.scatter(
        x, y, c=episode.bonus, cmap=COLOUR_MAP, norm=norm, s=24, edgecolor="white", linewidth=0.4, zorder=4
    )


def draw_inset(axes: Axes, episode: ExampleEpisode, *, norm: Normalize) -> Axes | None:
    """Magnify the region of most states, if it is a small part of the panel; return the inset, if any."""
    centre = np.median(episode.states, axis=0)
    radius = 4 * float(np.median(np.abs(episode.states - centre)))
    left, right = axes.get_xlim()
    if not 0 < 2 * radius < CROWDED * (right - left):
        return None
    limits = [(float(middle) - radius, float(middle) + radius) for middle in centre]
    inset = axes.inset_axes(INSET, xlim=limits[0], ylim=limits[1], xticks=[], yticks=[])
    inset.set_aspect("equal")
    draw_episode(inset, episode, norm=norm)
    axes.indicate_inset_zoom(inset, edgecolor="0.3", alpha=1.0, linewidth=0.8)
    return inset


def draw_bars(axes: Axes, values: Sequence[float], *, title: str) -> Axes:
    """Add one bar for each episode with its number on it; the largest number is bold."""
    bars = axes.barh(range(len(values)), values, color=COLOURS[: len(values)], height=0.62)
    texts = axes.bar_label(bars, fmt="%.2f", padding=4)
    texts[int(np.argmax(values))].set_fontweight("bold")
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_title(title, loc="left", fontsize="medium")
    axes.set_xticks([])
    axes.set_yticks([])
    # Leave room for the numbers; a negative estimate needs it on the left.
    axes.set_xlim(1.4 * min(0.0, *values), 1.4 * max(0.0, *values) or 1.0)
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    return axes


def _draw_plane(figure: FigureBase, reference: Array, episodes: Sequence[ExampleEpisode]) -> None:
    norm = Normalize(0, max(float(episode.bonus.max()) for episode in episodes))
    panels = _panels(figure, [reference, *(episode.states for episode in episodes)])
    draw_reference(panels[0], reference, faint=False)
    panels[0].set_title("(a) reference", loc="left", fontweight="bold")
    for index, (axes, episode) in enumerate(zip(panels[1:], episodes, strict=True)):
        draw_reference(axes, reference, faint=True)
        draw_episode(axes, episode, norm=norm)
        draw_inset(axes, episode, norm=norm)
        axes.set_title(f"({'bcdef'[index]}) {episode.name}", loc="left", fontweight="bold", color=COLOURS[index])
    figure.colorbar(
        ScalarMappable(norm, COLOUR_MAP), ax=panels, label="bonus of the state (with L)", shrink=0.78, aspect=18
    )


def _panels(figure: FigureBase, trajectories: Sequence[Array]) -> list[Axes]:
    """Create a panel for each trajectory, all on the same scale."""
    panels: list[Axes] = list(figure.subplots(1, len(trajectories), sharex=True, sharey=True))
    states = np.concatenate(trajectories)
    (left, bottom), (right, top) = states.min(axis=0) - MARGIN, states.max(axis=0) + MARGIN
    for axes in panels:
        axes.set(xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[])
        axes.set_aspect("equal")
        axes.spines[:].set_color("0.6")
    return panels


def _draw_numbers(figure: FigureBase, episodes: Sequence[ExampleEpisode]) -> None:
    numbers = {
        "mean bonus, with L": [episode.mean_bonus for episode in episodes],
        "mean bonus, without L": [episode.mean_unscaled for episode in episodes],
        "L": [episode.spread for episode in episodes],
        "Rényi divergence from (a)": [episode.divergence for episode in episodes],
    }
    panels: list[Axes] = list(figure.subplots(1, len(numbers)))
    for axes, (title, values) in zip(panels, numbers.items(), strict=True):
        draw_bars(axes, values, title=title)
    panels[0].set_yticks(range(len(episodes)), [episode.name for episode in episodes])
    panels[0].tick_params(axis="y", length=0)


def _mark_start(axes: Axes, states: Array) -> None:
    axes.scatter(states[0, 0], states[0, 1], s=80, facecolor="none", edgecolor="black", linewidth=1.0, zorder=3)
