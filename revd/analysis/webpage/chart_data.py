"""The numbers of a page's charts as JSON, which `assets/chart.js` draws."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from revd.analysis.drawing.captions import MAX_METHODS
from revd.analysis.drawing.styles import LineStyle, Style, distinct_styles, method_styles
from revd.analysis.statistics.aggregate import Profile
from revd.analysis.statistics.curves import Curve
from revd.analysis.statistics.figure_data import ReportData
from revd.analysis.statistics.grouping import group_by, setting
from revd.analysis.statistics.rollout_curves import rollout_curves
from revd.analysis.statistics.thresholds import THRESHOLDS
from revd.arrays import Array

#: A value of a JSON object.
Json = dict[str, Any]
#: The width of a line in the charts, in pixels; dashes are multiples of it.
LINE_WIDTH = 2.0
_DIGITS = 5


@dataclass(frozen=True, kw_only=True)
class RolloutChart:
    """A column of `progress.csv` that has charts, their title and the label of their axis."""

    group: str
    column: str
    title: str
    label: str
    explained: str
    is_share: bool = False


ROLLOUT_CHARTS = (
    RolloutChart(
        group="weight",
        column="exploration/weight",
        title="Weight of the bonus",
        label="weight",
        explained="What the bonus is multiplied by: before it joins the rewards, or with weight auto the advantages.",
    ),
    RolloutChart(
        group="share",
        column="exploration/bonus_share",
        title="Share of the bonus",
        label="share of the bonus",
        explained="Its part of the absolute rewards, or with weight auto of the absolute advantages.",
        is_share=True,
    ),
)


def page_styles(methods: Sequence[str]) -> dict[str, Style]:
    """The styles of all methods: as in the figures, or as different as possible if there are many."""
    return method_styles(methods) if len(methods) <= MAX_METHODS else distinct_styles(methods)


def shown_methods(data: ReportData) -> list[str]:
    """The methods whose curves are shown at first: of many, the best of each figure, as in the figures."""
    return sorted({method for figure in data.figures for method in figure.best_methods(MAX_METHODS)})


def chart_data(data: ReportData) -> Json:
    """All charts by group; methods and tasks are named once, and numbers elsewhere."""
    styles = page_styles(methods_of(data))
    methods = [{"name": method, "dashes": dash_lengths(styles[method].dashes)} for method in methods_of(data)]
    groups = {"returns": _group("episode return", _return_charts(data))}
    groups |= {chart.group: _rollout_group(chart, data) for chart in ROLLOUT_CHARTS}
    groups |= _profile_groups(data)
    return {"methods": methods, "tasks": tasks_of(data), "lineWidth": LINE_WIDTH, "groups": groups}


def methods_of(data: ReportData) -> list[str]:
    """All methods outside searches, in the order of the tables."""
    return list(dict.fromkeys(run.label for run in data.runs))


def tasks_of(data: ReportData) -> list[str]:
    """All tasks and settings outside searches, in the order of the tables."""
    return list(dict.fromkeys(setting(run) for run in data.runs))


def dash_lengths(dashes: LineStyle) -> list[float]:
    """Lengths of dashes and gaps in pixels; none for a solid line."""
    return [] if isinstance(dashes, str) else [round(length * LINE_WIDTH, 1) for length in dashes[1]]


def _return_charts(data: ReportData) -> list[Json]:
    """A chart for each task with the curves of all figures."""
    curves: dict[str, dict[str, Curve]] = {}
    for figure in data.figures:
        for run in figure.plan.runs:
            # The figure over all families has no curves.
            curves.setdefault(setting(run), {}).update(figure.curves.get(run.task, {}))
    tasks = {setting(run): run.task for run in data.runs}
    return [
        _chart(data, task, found) | {"threshold": THRESHOLDS.get(tasks[task])}
        for task, found in curves.items()
        if found
    ]


def _rollout_group(chart: RolloutChart, data: ReportData) -> Json:
    groups = group_by(data.runs, setting)
    curves = {task: rollout_curves(runs, chart.column) for task, runs in groups.items()}
    charts = [_chart(data, task, found) for task, found in curves.items() if found]
    return _group(chart.label, charts, is_share=chart.is_share)


def _profile_groups(data: ReportData) -> Json:
    """A group of one chart for each figure that compares methods over tasks."""
    groups = {}
    for index, figure in enumerate(data.figures):
        if figure.aggregate is not None:
            series = [_profile(data, method, profile) for method, profile in figure.aggregate.profiles.items()]
            chart = {"task": None, "title": "Performance profile", "series": series}
            label = "fraction of runs above it"
            groups[f"profile-{index}"] = _group(label, [chart], x_label="normalised score", is_share=True)
    return groups


def _group(label: str, charts: Sequence[Json], *, x_label: str = "environment steps", is_share: bool = False) -> Json:
    return {"label": label, "xLabel": x_label, "isShare": is_share, "charts": charts}


def _chart(data: ReportData, task: str, curves: Mapping[str, Curve]) -> Json:
    series = [_curve(data, method, curve) for method, curve in curves.items()]
    return {"task": tasks_of(data).index(task), "title": task, "series": series}


def _curve(data: ReportData, method: str, curve: Curve) -> Json:
    band = {"low": _numbers(curve.low), "high": _numbers(curve.high)} if curve.seeds > 1 else {}
    return _series(data, method, curve.steps, curve.mean) | band


def _profile(data: ReportData, method: str, profile: Profile) -> Json:
    band = {"low": _numbers(profile.low), "high": _numbers(profile.high)}
    return _series(data, method, profile.thresholds, profile.fraction) | band


def _series(data: ReportData, method: str, x: Array, mean: Array) -> Json:
    return {"method": methods_of(data).index(method), "x": _numbers(x, digits=9), "mean": _numbers(mean)}


def _numbers(values: Iterable[float], *, digits: int = _DIGITS) -> list[float | None]:
    """Rounded numbers; None for those that are not finite, which JSON has no word for."""
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values]
