"""Results as files: PNG and PDF of each figure, and its numbers beside it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from revd.analysis.drawing.comparisons import comparison_figure
from revd.analysis.drawing.figures import save_figure
from revd.analysis.drawing.search_figure import search_figure
from revd.analysis.drawing.styles import Style, distinct_styles, method_styles
from revd.analysis.drawing.task_curves import curve_figure
from revd.analysis.statistics.curves import WINDOW
from revd.analysis.statistics.figure_data import Analysis, Result, SearchResult
from revd.analysis.writing.csv_export import (
    COMPARISON_COLUMNS,
    CURVE_COLUMNS,
    SCORE_COLUMNS,
    comparison_rows,
    curve_rows,
    score_rows,
    search_columns,
    search_rows,
    write_csv,
)

Tell = Callable[[Path], None]


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """One figure's files."""

    png: Path
    pdf: Path
    csv: Path


@dataclass(frozen=True, kw_only=True)
class Published:
    """The files of one result; those of the comparison over tasks are None where it could not be made."""

    result: Result
    curves: Drawing
    comparison: Drawing | None
    scores: Path


@dataclass(frozen=True, kw_only=True)
class PublishedSearch:
    """The files of a search; those of its learning curves are None where no episode has ended."""

    result: SearchResult
    scores: Drawing
    curves: Drawing | None

    @property
    def drawings(self) -> list[Drawing]:
        """All of them."""
        return [self.scores] if self.curves is None else [self.scores, self.curves]


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The files of all results."""

    results: tuple[Published, ...] = ()
    searches: tuple[PublishedSearch, ...] = ()


def publish(
    analysis: Analysis, directory: Path, *, window: int = WINDOW, tell: Tell = lambda path: None
) -> Publication:
    """Write all figures into a directory; `tell` is called with the PNG of each as soon as it is there."""
    directory.mkdir(parents=True, exist_ok=True)
    styles = method_styles(analysis.methods)
    names = _search_names(analysis)
    return Publication(
        results=tuple(_publish(result, directory, styles, window, tell) for result in analysis.results),
        searches=tuple(
            _publish_search(found, directory / name, window, tell)
            for name, found in zip(names, analysis.searches, strict=True)
        ),
    )


def _search_names(analysis: Analysis) -> list[str]:
    """File names after the directories of searches, each once."""
    names: list[str] = []
    for found in analysis.searches:
        plain = re.sub(r"[^\w.-]+", "-", f"search-{found.search.directory.resolve().name}")
        taken = sum(name == plain or name.startswith(f"{plain}~") for name in names)
        names.append(f"{plain}~{taken + 1}" if taken else plain)
    return names


def _publish_search(found: SearchResult, path: Path, window: int, tell: Tell) -> PublishedSearch:
    csv = write_csv(path.with_name(f"{path.name}.csv"), search_columns(found.search), search_rows(found.search))
    scores = _save(search_figure(found.search), csv)
    tell(scores.png)
    curves = None
    if found.curves is not None:
        csv = write_csv(path.with_name(f"{path.name}-curves.csv"), CURVE_COLUMNS, curve_rows(found.curves.curves))
        curves = _save(curve_figure(found.curves, styles=distinct_styles(found.curves.drawn), window=window), csv)
        tell(curves.png)
    return PublishedSearch(result=found, scores=scores, curves=curves)


def _publish(result: Result, directory: Path, styles: Mapping[str, Style], window: int, tell: Tell) -> Published:
    name = result.selection.name
    csv = write_csv(directory / f"{name}.csv", CURVE_COLUMNS, curve_rows(result.curves))
    curves = _save(curve_figure(result, styles=styles, window=window), csv)
    tell(curves.png)
    scores = write_csv(directory / f"{name}-scores.csv", SCORE_COLUMNS, score_rows(result.scores))
    comparison = None
    if result.aggregate is not None:
        csv = write_csv(directory / f"{name}-comparison.csv", COMPARISON_COLUMNS, comparison_rows(result.aggregate))
        comparison = _save(comparison_figure(result, styles=styles), csv)
        tell(comparison.png)
    return Published(result=result, curves=curves, comparison=comparison, scores=scores)


def _save(figure: Figure, csv: Path) -> Drawing:
    png, pdf = (save_figure(figure, csv.with_name(csv.stem + suffix)) for suffix in (".png", ".pdf"))
    return Drawing(png=png, pdf=pdf, csv=csv)
