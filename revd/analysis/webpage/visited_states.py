"""The section of a page about visited states: a table, curves and heat maps."""

from collections.abc import Mapping
from dataclasses import dataclass

from revd.analysis.drawing.coverage_curves import CAPTION, coverage_figure
from revd.analysis.drawing.heat_maps import heat_map_caption, heat_map_figure
from revd.analysis.drawing.styles import Style
from revd.analysis.statistics.coverage import analyse_coverage
from revd.analysis.statistics.figure_data import ReportData
from revd.analysis.webpage.pictures import Picture, draw_picture
from revd.analysis.writing.coverage_section import CURVES_TITLE, coverage_table, map_title
from revd.analysis.writing.tables import Table


@dataclass(frozen=True, kw_only=True)
class VisitedStates:
    """The cells that runs had visited at the end, and pictures of the way there."""

    table: Table
    pictures: tuple[Picture, ...]
    notes: tuple[str, ...]


def visited_states(data: ReportData, styles: Mapping[str, Style]) -> VisitedStates | None:
    """The section; None if no run counted visited states."""
    found = analyse_coverage(data.runs)
    if not found.curves:
        return None
    curves = draw_picture(coverage_figure(found.curves, styles=styles), CURVES_TITLE, CAPTION)
    maps = [draw_picture(heat_map_figure(each), map_title(each.setting), heat_map_caption(each)) for each in found.maps]
    return VisitedStates(table=coverage_table(found.results), pictures=(curves, *maps), notes=tuple(found.notes))
