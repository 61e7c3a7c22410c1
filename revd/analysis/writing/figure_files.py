"""Writing all figures of a report: PNG and PDF of each, and a CSV file of its numbers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from revd.analysis.drawing.comparisons import comparison_figure
from revd.analysis.drawing.search_figure import search_figure
from revd.analysis.drawing.styles import Style, distinct_styles, method_styles
from revd.analysis.drawing.task_curves import curve_figure
from revd.analysis.statistics.curves import WINDOW
from revd.analysis.statistics.figure_data import FigureData, ReportData, SearchData
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
from revd.analysis.writing.image_files import save_figure

#: Called with the PNG of each figure once it is written.
OnWritten = Callable[[Path], None]


@dataclass(frozen=True, kw_only=True)
class ImageFiles:
    """The files of one image."""

    png: Path
    pdf: Path
    csv: Path


@dataclass(frozen=True, kw_only=True)
class FigureFiles:
    """The files of one figure: learning curves and the comparison over tasks, if there are some, and scores."""

    data: FigureData
    curves: ImageFiles | None
    comparison: ImageFiles | None
    scores: Path


@dataclass(frozen=True, kw_only=True)
class SearchFiles:
    """The files of a search: scores of the trials, and their learning curves, if an episode has ended."""

    data: SearchData
    scores: ImageFiles
    curves: ImageFiles | None

    @property
    def images(self) -> list[ImageFiles]:
        """All images of the search."""
        return [self.scores] if self.curves is None else [self.scores, self.curves]


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """The files of all figures and searches."""

    figures: tuple[FigureFiles, ...] = ()
    searches: tuple[SearchFiles, ...] = ()


def write_figures(
    data: ReportData, directory: Path, *, window: int = WINDOW, on_written: OnWritten = lambda path: None
) -> ReportFiles:
    """Write all figures into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    styles = method_styles(data.methods)
    names = _search_names(data)
    return ReportFiles(
        figures=tuple(_write_figure(figure, directory, styles, window, on_written) for figure in data.figures),
        searches=tuple(
            _write_search(found, directory / name, window, on_written)
            for name, found in zip(names, data.searches, strict=True)
        ),
    )


def _search_names(data: ReportData) -> list[str]:
    """A unique file name for each search, made from its directory's name."""
    names: list[str] = []
    for found in data.searches:
        plain = re.sub(r"[^\w.-]+", "-", f"search-{found.search.directory.resolve().name}")
        taken = sum(name == plain or name.startswith(f"{plain}~") for name in names)
        names.append(f"{plain}~{taken + 1}" if taken else plain)
    return names


def _write_search(data: SearchData, path: Path, window: int, on_written: OnWritten) -> SearchFiles:
    csv = write_csv(path.with_name(f"{path.name}.csv"), search_columns(data.search), search_rows(data.search))
    scores = write_images(search_figure(data.search), csv)
    on_written(scores.png)
    curves = None
    if data.curves is not None:
        csv = write_csv(path.with_name(f"{path.name}-curves.csv"), CURVE_COLUMNS, curve_rows(data.curves.curves))
        styles = distinct_styles(data.curves.drawn)
        curves = write_images(curve_figure(data.curves, styles=styles, window=window), csv)
        on_written(curves.png)
    return SearchFiles(data=data, scores=scores, curves=curves)


def _write_figure(
    data: FigureData, directory: Path, styles: Mapping[str, Style], window: int, on_written: OnWritten
) -> FigureFiles:
    name = data.plan.name
    curves = comparison = None
    if data.curves:
        csv = write_csv(directory / f"{name}.csv", CURVE_COLUMNS, curve_rows(data.curves))
        curves = write_images(curve_figure(data, styles=styles, window=window), csv)
        on_written(curves.png)
    scores = write_csv(directory / f"{name}-scores.csv", SCORE_COLUMNS, score_rows(data.scores))
    if data.aggregate is not None:
        csv = write_csv(directory / f"{name}-comparison.csv", COMPARISON_COLUMNS, comparison_rows(data.aggregate))
        comparison = write_images(comparison_figure(data, styles=styles), csv)
        on_written(comparison.png)
    return FigureFiles(data=data, curves=curves, comparison=comparison, scores=scores)


def write_images(figure: Figure, csv: Path) -> ImageFiles:
    """Write a figure as PNG and PDF beside the CSV file of its numbers."""
    png, pdf = (save_figure(figure, csv.with_name(csv.stem + suffix)) for suffix in (".png", ".pdf"))
    return ImageFiles(png=png, pdf=pdf, csv=csv)
