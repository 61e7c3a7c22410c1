"""Films of episodes: the frames, and below them the curve of the bonus up to the current step."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from PIL import Image

from revd.analysis.drawing.styles import COLOURS

Picture = NDArray[np.uint8]

#: In pixels. The heights of header and curve are even, because video formats require it.
WIDTH, MAX_FRAME_HEIGHT = 420, 316
HEADER, CURVE = 48, 128
MARGIN, LABELS = 14, 50
#: Small frames are magnified at most by this factor.
MAX_SCALE = 2.0

_DPI = 100
_COLOUR = COLOURS[1]


class FilmedEpisode(Protocol):
    """The data of an episode of n steps that a film shows."""

    @property
    def frames(self) -> Sequence[Picture]:
        """N frames of one size, (height, width, 3)."""

    @property
    def rewards(self) -> NDArray[np.float64]:
        """Rewards of the task, (n,)."""

    @property
    def bonus(self) -> NDArray[np.float32] | None:
        """Bonus of each step, (n,), or None without a bonus."""


class Film:
    """One picture for each step of an episode, drawn on demand.

    The static parts are drawn once. Each picture starts from them, adds numbers, curve and cursor, and pastes the
    step's frame.

    Args:
        episode: The episode.
        title: First line of every picture.
    """

    def __init__(self, episode: FilmedEpisode, *, title: str) -> None:
        self._frames = episode.frames
        self._bonus = episode.bonus
        self._returns = np.cumsum(episode.rewards)
        self._frame_shape = _frame_size(self._frames[0].shape)
        height = HEADER + self._frame_shape[0] + (CURVE if self._bonus is not None else 0)
        figure = Figure(figsize=(WIDTH / _DPI, height / _DPI), dpi=_DPI, facecolor="white")
        self._canvas = FigureCanvasAgg(figure)
        self._numbers = _draw_header(figure, title)
        self._curve = None if self._bonus is None else _BonusCurve(figure, self._bonus)
        self._canvas.draw()
        self._background = self._canvas.copy_from_bbox(figure.bbox)

    def __len__(self) -> int:
        """Number of steps of the episode."""
        return len(self._frames)

    def picture(self, step: int) -> Picture:
        """Draw the picture of a step, (height, width, 3); all pictures have the same size."""
        self._canvas.restore_region(self._background)
        changing: list[Artist] = list(self._numbers)
        for text, content in zip(self._numbers, self._header_texts(step), strict=True):
            text.set_text(content)
        if self._curve is not None:
            changing += self._curve.until(step)
        for artist in changing:
            artist.draw(self._canvas.get_renderer())
        picture: Picture = np.array(self._canvas.buffer_rgba())[..., :3]
        height, width = self._frame_shape
        left = (WIDTH - width) // 2
        resized = Image.fromarray(self._frames[step]).resize((width, height), Image.Resampling.BICUBIC)
        picture[HEADER : HEADER + height, left : left + width] = np.asarray(resized)
        return picture

    def _header_texts(self, step: int) -> tuple[str, str, str]:
        bonus = "no bonus" if self._bonus is None else f"bonus {self._bonus[step]:.3g}"
        return f"step {step + 1}", f"task reward {self._returns[step]:.2f}", bonus


class _BonusCurve:
    """The bonus as a function of the step."""

    def __init__(self, figure: Figure, bonus: NDArray[np.float32]) -> None:
        self._bonus = bonus
        self._steps = np.arange(1, len(bonus) + 1)
        axes = _curve_axes(figure, bonus)
        (self._line,) = axes.plot([], [], color=_COLOUR, linewidth=1.3, solid_joinstyle="round", animated=True)
        self._cursor = axes.axvline(1, color="0.55", linewidth=0.9, animated=True)
        (self._now,) = axes.plot([], [], "o", color=_COLOUR, markersize=4.5, clip_on=False, animated=True)

    def until(self, step: int) -> list[Artist]:
        """Update the curve to a step, and return its artists."""
        x, y = self._steps[: step + 1], self._bonus[: step + 1]
        self._line.set_data(x, y)
        self._cursor.set_xdata(x[-1:].repeat(2))
        self._now.set_data(x[-1:], y[-1:])
        return [self._cursor, self._line, self._now]


def _curve_axes(figure: Figure, bonus: NDArray[np.float32]) -> Axes:
    height = figure.bbox.height
    below, above = 36, 12
    axes = figure.add_axes(
        (LABELS / WIDTH, below / height, (WIDTH - LABELS - MARGIN) / WIDTH, (CURVE - below - above) / height)
    )
    axes.set_xlim(1, max(len(bonus), 2))
    axes.set_ylim(min(0.0, float(bonus.min())), 1.05 * float(bonus.max()) or 1.0)
    axes.set_xlabel("step", fontsize=8, labelpad=1)
    axes.set_ylabel("bonus", fontsize=8, color=_COLOUR)
    axes.tick_params(labelsize=7, length=2, color="0.6")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.grid(axis="y", color="0.92", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("0.6")
    return axes


def _draw_header(figure: Figure, title: str) -> list[Text]:
    """Draw the title, and return the texts that change: step, task reward and bonus."""
    height = figure.bbox.height
    heading = figure.text(MARGIN / WIDTH, 1 - 15 / height, title, fontsize=9, fontweight="bold", va="center")
    room = (WIDTH - 2 * MARGIN) / heading.get_window_extent().width
    heading.set_fontsize(9 * min(1.0, room))
    places = ((MARGIN, "left", "0.25"), (WIDTH // 2, "center", "0.25"), (WIDTH - MARGIN, "right", _COLOUR))
    return [
        figure.text(x / WIDTH, 1 - 35 / height, "", fontsize=9, color=colour, ha=align, va="center", animated=True)
        for x, align, colour in places
    ]


def _frame_size(shape: Sequence[int]) -> tuple[int, int]:
    """Height and width of a frame in the film; the height is even."""
    height, width = shape[:2]
    scale = min(WIDTH / width, MAX_FRAME_HEIGHT / height, MAX_SCALE)
    return max(2, 2 * round(scale * height / 2)), max(1, round(scale * width))
