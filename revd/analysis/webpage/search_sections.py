"""What a page shows of searches: the best trials and the figures of the Markdown report."""

from dataclasses import dataclass

from revd.analysis.drawing.captions import curve_caption, search_caption, search_title
from revd.analysis.drawing.search_figure import search_figure
from revd.analysis.drawing.styles import distinct_styles
from revd.analysis.drawing.task_curves import curve_figure
from revd.analysis.statistics.figure_data import ReportData, SearchData
from revd.analysis.webpage.pictures import Picture, draw_picture
from revd.analysis.writing.tables import Table, trial_count, trial_table


@dataclass(frozen=True, kw_only=True)
class SearchSection:
    """One search."""

    title: str
    count: str
    trials: Table
    pictures: tuple[Picture, ...]


def search_sections(data: ReportData) -> list[SearchSection]:
    """All searches."""
    return [_section(found) for found in data.searches]


def _section(found: SearchData) -> SearchSection:
    search, title = found.search, search_title(found.search)
    pictures = [draw_picture(search_figure(search), f"{title}: scores", search_caption(search))]
    if found.curves is not None:
        figure = curve_figure(found.curves, styles=distinct_styles(found.curves.drawn))
        pictures.append(draw_picture(figure, f"{title}: learning curves", curve_caption(found.curves)))
    return SearchSection(title=title, count=trial_count(search), trials=trial_table(search), pictures=tuple(pictures))
