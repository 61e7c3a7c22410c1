"""Figures of the comparison over tasks.

Interquartile means, performance profiles and probabilities of improvement.
"""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from revd.analysis.drawing.captions import MAX_METHODS, comparison_caption
from revd.analysis.drawing.figures import captioned_figure, style_axes, title_figure
from revd.analysis.drawing.styles import Style, distinct_styles
from revd.analysis.statistics.aggregate import Aggregate, Estimate, Profile, why_no_pairs
from revd.analysis.statistics.figure_data import FigureData

# Characters in a line of a row's label: labels of variants are long.
_LABEL_WIDTH = 16
# Most readable rows of the panels of intervals; the CSV file has all.
_MAX_ROWS = 16
_OTHERS = Style(colour="0.6", dashes="solid")


def draw_intervals(axes: Axes, estimates: Sequence[tuple[str, Estimate, str]]) -> Axes:
    """Add rows of (label, estimate, colour) from the top: a bar for the interval, a line at the value."""
    for row, (_, estimate, colour) in enumerate(estimates):
        axes.barh(row, estimate.high - estimate.low, left=estimate.low, height=0.55, color=colour, alpha=0.45)
        axes.vlines(estimate.value, row - 0.275, row + 0.275, color=colour, linewidth=2.2)
    axes.set_yticks(range(len(estimates)), [_wrap(label) for label, _, _ in estimates])
    axes.set_ylim(len(estimates) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="0.9", linewidth=0.8)
    axes.tick_params(axis="y", length=0)
    return axes


def draw_profile(axes: Axes, profile: Profile, *, style: Style, label: str) -> Axes:
    """Add one method: the fraction of its runs above each score."""
    axes.fill_between(profile.thresholds, profile.low, profile.high, color=style.colour, alpha=0.15, linewidth=0)
    axes.plot(
        profile.thresholds, profile.fraction, color=style.colour, linestyle=style.dashes, linewidth=1.6, label=label
    )
    return axes


def comparison_figure(data: FigureData, *, styles: Mapping[str, Style]) -> Figure:
    """All three statistics side by side; an empty panel says why it is empty."""
    found = data.aggregate
    if found is None:
        raise ValueError(f"{data.plan.name} has no comparison: {'; '.join(data.notes)}")
    caption = comparison_caption(found)
    lines = _best_methods(found, data.plain, MAX_METHODS)
    if len(found.iqm) > MAX_METHODS:
        found = _keep(found, _best_methods(found, data.plain, _MAX_ROWS))
        styles = dict.fromkeys(found.iqm, _OTHERS) | distinct_styles(lines)
    rows = max(len(found.iqm), min(len(found.improvements), _MAX_ROWS), 3)
    width = 13.0 if any(len(method) > _LABEL_WIDTH for method in found.iqm) else 11.0
    # Room for the lines of the longest label, which names two methods.
    height = 1 + max(_wrap(f"over {method}").count("\n") + 1 for method in found.iqm)
    figure, body = captioned_figure(width, 1.4 + (0.1 + 0.175 * height) * rows, caption)
    means, profiles, improvements = body.subplots(1, 3, width_ratios=(1.0, 1.15, 1.0))
    _draw_means(means, found, styles)
    _draw_profiles(profiles, {method: found.profiles[method] for method in lines}, styles)
    _draw_improvements(improvements, found, styles)
    title_figure(body, f"{data.plan.title}, over {_task_count(found)}")
    return figure


def _wrap(label: str) -> str:
    return "\n".join(textwrap.fill(line, _LABEL_WIDTH) for line in label.split("\n"))


def _best_methods(found: Aggregate, plain: Collection[str], count: int) -> list[str]:
    """Those without a bonus, and of the others the ones with the highest interquartile means, in their order."""
    ranked = sorted(found.iqm, key=lambda method: (method not in plain, -found.iqm[method].value))
    return [method for method in found.iqm if method in ranked[:count]]


def _keep(found: Aggregate, methods: Sequence[str]) -> Aggregate:
    """Keep some methods, and their probabilities of improvement."""
    return replace(
        found,
        seeds={method: found.seeds[method] for method in methods},
        iqm={method: found.iqm[method] for method in methods},
        profiles={method: found.profiles[method] for method in methods},
        improvements={pair: chance for pair, chance in found.improvements.items() if pair[0] in methods},
    )


def _draw_means(axes: Axes, found: Aggregate, styles: Mapping[str, Style]) -> None:
    style_axes(axes, title="Interquartile mean")
    draw_intervals(axes, [(method, estimate, styles[method].colour) for method, estimate in found.iqm.items()])
    axes.set(xlabel="normalised score", xlim=(-0.02, 1.02))


def _draw_profiles(axes: Axes, found: Mapping[str, Profile], styles: Mapping[str, Style]) -> None:
    style_axes(axes, title="Performance profile")
    for method, profile in found.items():
        draw_profile(axes, profile, style=styles[method], label=method)
    axes.set(xlabel="normalised score", ylabel="fraction of runs above it", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))


def _draw_improvements(axes: Axes, found: Aggregate, styles: Mapping[str, Style]) -> None:
    style_axes(axes, title="Probability of improvement")
    rows = [(f"{a}\nover {b}", estimate, styles[a].colour) for (a, b), estimate in found.improvements.items()]
    draw_intervals(axes, rows[:_MAX_ROWS])
    axes.axvline(0.5, color="0.4", linewidth=0.9, linestyle=(0, (2, 3)), zorder=0)
    axes.set(xlabel="P(a run beats one of the other)", xlim=(-0.02, 1.02))
    if len(rows) > _MAX_ROWS:
        axes.set_title(f"({_MAX_ROWS} of {len(rows)} pairs)", loc="right", fontsize="small", color="0.5")
    if not rows:
        axes.set(yticks=[], ylim=(0, 1))
        reason = why_no_pairs(found) if len(found.iqm) == 1 else "all pairs contain methods that are not shown"
        axes.text(0.5, 0.6, textwrap.fill(reason, 30), ha="center", va="center", color="0.5")


def _task_count(found: Aggregate) -> str:
    return f"{len(found.tasks)} tasks" if len(found.tasks) > 1 else f"one task only, {found.tasks[0]}"
