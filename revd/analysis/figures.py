"""Learning curves drawn. Functions take and return an `Axes`; only `save_figure` touches files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from revd.analysis.curves import WINDOW, Band, band
from revd.analysis.runs import Run
from revd.analysis.tables import group_by_method

# Okabe and Ito's colours, told apart with every common kind of colour blindness.
__X__


def draw_band(axes: Axes, curve: Band, *, label: str, colour: str) -> Axes:
    """Add one method: its mean as a line, its range over seeds as a band, each seed as a thin line."""
    if len(curve.curves) > 1:
        axes.fill_between(curve.steps, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(curve.steps, curve.curves.T, color=colour, alpha=0.45, linewidth=0.7)
    axes.plot(curve.steps, curve.mean, color=colour, linewidth=2.0, label=label)
    return axes


def draw_methods(axes: Axes, methods: Mapping[str, Band], *, threshold: float | None = None) -> Axes:
    """Add all methods, and a dotted line at the return they are measured by."""
    for index, (method, curve) in enumerate(methods.items()):
        seeds = len(curve.curves)
        label = f"{method} ({seeds} seed{'s' if seeds > 1 else ''})"
        draw_band(axes, curve, label=label, colour=COLOURS[index % len(COLOURS)])
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
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = draw_methods(figure.add_subplot(), methods, threshold=threshold)
    _style(axes, title=tasks[0], window=window)
    return figure


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a PNG sharp enough for print."""
    figure.savefig(path, dpi=200)
    return path


def _style(axes: Axes, *, title: str, window: int) -> None:
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel("environment steps")
    axes.set_ylabel(f"return, mean of the last {window} episodes")
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlim(left=0)
    axes.legend(frameon=False, loc="best", title="mean, band: min to max", title_fontsize="small", alignment="left")


def _thousands(steps: float, position: int | None) -> str:
    if steps >= 1e6:
        return f"{steps / 1e6:g}M"
    return f"{steps / 1e3:g}k" if steps >= 1e3 else f"{steps:g}"
