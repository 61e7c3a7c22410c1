"""The figure of a comparison on one task: final returns, and probabilities of improvement, with their intervals."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from revd.analysis.drawing.comparisons import draw_intervals
from revd.analysis.drawing.figures import captioned_figure, style_axes
from revd.analysis.drawing.styles import Style, method_styles
from revd.analysis.statistics.aggregate import CONFIDENCE, RESAMPLES
from revd.analysis.statistics.scores import MIN_SEEDS
from revd.analysis.statistics.task_results import TaskResult
from revd.analysis.statistics.verdicts import Verdict
from revd.episodes import FINAL_RETURN


def task_comparison_figure(results: Sequence[TaskResult], verdicts: Sequence[Verdict]) -> Figure:
    """Two panels of bars, one for each method and one for each verdict; an empty panel says why it is empty."""
    caption = (
        f"Final return: {FINAL_RETURN}; line: mean over seeds. Right: how probably a run does better than one without "
        f"a bonus. Bars: {CONFIDENCE:.0%} bootstrap intervals ({RESAMPLES:,} resamples), too narrow with few seeds."
    )
    styles = method_styles(result.method for result in results)
    figure, body = captioned_figure(10.0, 1.2 + 0.6 * max(len(results), len(verdicts), 2), caption)
    finals, chances = body.subplots(1, 2)
    style_axes(finals, title="Final return").set_xlabel("return")
    draw_intervals(
        finals, [(row.method, row.final, styles[row.method].colour) for row in results if row.final is not None]
    )
    style_axes(chances, title="Probability of improvement")
    _draw_chances(chances, verdicts, styles)
    return figure


def _draw_chances(axes: Axes, verdicts: Sequence[Verdict], styles: Mapping[str, Style]) -> None:
    rows = [(_label(row), row.chance, styles[row.method].colour) for row in verdicts if row.chance is not None]
    draw_intervals(axes, rows)
    axes.axvline(0.5, color="0.4", linewidth=0.9, linestyle=(0, (2, 3)), zorder=0)
    axes.set(xlabel="P(a run does better than one of the other)", xlim=(-0.02, 1.02))
    if not rows:
        axes.set(yticks=[], ylim=(0, 1))
        axes.text(0.5, 0.6, f"fewer than {MIN_SEEDS} seeds", ha="center", va="center", color="0.5")


def _label(verdict: Verdict) -> str:
    measure = "final return" if verdict.threshold is None else f"steps to {verdict.threshold:g}"
    return f"{verdict.method}\nover {verdict.base}:\n{measure}"
