"""Writing a report as one HTML page with its data, style and script inside.

Everything from runs is untrusted. Jinja2 escapes it in the page and in the JSON. Beyond that, the page's own policy
lets a browser run only the one script below, and load nothing.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from revd.analysis.drawing.captions import MAX_METHODS, curve_caption
from revd.analysis.drawing.styles import DARK_BACKGROUND, Style, colour_on_dark
from revd.analysis.drawing.task_curves import curve_figure
from revd.analysis.statistics.figure_data import FigureData, ReportData
from revd.analysis.statistics.grouping import other_settings
from revd.analysis.statistics.time_use import TIME_PARTS
from revd.analysis.webpage.chart_data import (
    LINE_WIDTH,
    ROLLOUT_CHARTS,
    chart_data,
    dash_lengths,
    methods_of,
    page_styles,
    shown_methods,
    tasks_of,
)
from revd.analysis.webpage.media import MAX_ALL_BYTES, MAX_BYTES, Medium, find_media
from revd.analysis.webpage.pictures import Picture, draw_picture
from revd.analysis.webpage.search_sections import search_sections
from revd.analysis.webpage.sections import COLUMNS_BEFORE_BARS, comparisons, page_title, results, run_rows, time_rows
from revd.analysis.webpage.visited_states import visited_states
from revd.analysis.writing.coverage_section import COVERAGE_EXPLAINED
from revd.analysis.writing.report import NOTHING_TO_DRAW
from revd.analysis.writing.return_tables import returns_explained
from revd.analysis.writing.tables import (
    BONUS_EXPLAINED,
    DAMAGE_EXPLAINED,
    SOFTWARE_EXPLAINED,
    bonus_table,
    damage_table,
    incomplete_table,
    overview,
    run_table,
    software_table,
)
from revd.storage.atomic import write_whole

_ASSETS = "assets"
_SCRIPTS = ("scale.js", "chart.js", "page.js")


@dataclass(frozen=True, kw_only=True)
class MethodStyle:
    """How a method's lines look on light and dark pages, and whether they are shown at first."""

    name: str
    light: str
    dark: str
    dashes: str
    is_shown: bool


def write_web_page(data: ReportData, page: Path, *, unreadable: Sequence[str] = ()) -> list[Medium]:
    """Write the page, and return the films and pictures of the runs that it shows or links."""
    media = find_media(data.all_runs, page)
    page.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page, render_page(data, media, unreadable=unreadable).encode())
    return media


def render_page(data: ReportData, media: Sequence[Medium] = (), *, unreadable: Sequence[str] = ()) -> str:
    """The text of the page; equal runs give equal pages."""
    script = "".join(_read_asset(name) for name in _SCRIPTS)
    context = {
        "title": page_title(data),
        "overview": overview(data),
        "policy": _policy(script),
        "style": Markup(_read_asset("page.css")),
        "script": Markup(script),
        "dark_background": DARK_BACKGROUND,
        "media": media,
        "megabytes": (MAX_BYTES // 2**20, MAX_ALL_BYTES // 2**20),
        "searches": search_sections(data),
    }
    return (
        _environment()
        .get_template("page.html")
        .render(context | _chart_context(data) | _table_context(data, unreadable))
    )


def _chart_context(data: ReportData) -> dict[str, Any]:
    """What the template needs for the charts, their legend and their explanations."""
    methods, shown = methods_of(data), shown_methods(data)
    styles = page_styles(methods)
    return {
        "charts": chart_data(data),
        "rollout_charts": ROLLOUT_CHARTS,
        "line_width": LINE_WIDTH,
        "tasks": tasks_of(data),
        "methods": [_method_style(method, styles[method], is_shown=method in shown) for method in methods],
        "index": {method: index for index, method in enumerate(methods)},
        "max_methods": MAX_METHODS,
        "pictures": [_curve_picture(figure, styles) for figure in data.figures if figure.drawn],
        "coverage": visited_states(data, styles),
        "coverage_explained": COVERAGE_EXPLAINED,
        "figure_notes": list(dict.fromkeys(note for figure in data.figures for note in figure.notes)),
        "nothing_to_draw": NOTHING_TO_DRAW,
    }


def _table_context(data: ReportData, unreadable: Sequence[str]) -> dict[str, Any]:
    """What the template needs for the tables and bars."""
    return {
        "results": results(data),
        "columns_before_bars": COLUMNS_BEFORE_BARS,
        "returns_explained": returns_explained(),
        "comparisons": comparisons(data),
        "bonus": bonus_table(data.runs),
        "bonus_explained": BONUS_EXPLAINED,
        "time_rows": time_rows(data),
        "time_parts": TIME_PARTS,
        "what_was_run": run_table(data.runs),
        "other_settings": other_settings(data.runs),
        "runs": run_rows(data.all_runs),
        "damaged": damage_table(data.all_runs),
        "damage_explained": DAMAGE_EXPLAINED,
        "incomplete": incomplete_table(data),
        "notes": [*unreadable, *data.notes],
        "software": software_table(data.all_runs),
        "software_explained": SOFTWARE_EXPLAINED,
    }


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("revd.analysis.webpage", _ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The filter `tojson` also escapes <, > and &, so that no text can end the element that holds the JSON.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


def _policy(script: str) -> str:
    """The Content-Security-Policy of the page, which names its script by its hash."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; media-src data:"
    return f"default-src 'none'; base-uri 'none'; form-action 'none'; {allowed}"


def _read_asset(name: str) -> str:
    return files("revd.analysis.webpage").joinpath(_ASSETS, name).read_text(encoding="utf-8")


def _method_style(method: str, style: Style, *, is_shown: bool) -> MethodStyle:
    return MethodStyle(
        name=method,
        light=style.colour,
        dark=colour_on_dark(style.colour),
        dashes=" ".join(map(str, dash_lengths(style.dashes))),
        is_shown=is_shown,
    )


def _curve_picture(data: FigureData, styles: Mapping[str, Style]) -> Picture:
    """The figure that the Markdown page shows, for browsers without scripts."""
    title = f"{data.plan.title}: learning curves"
    return draw_picture(curve_figure(data, styles=styles), title, curve_caption(data))
