"""Results as files: PNG and PDF of each figure, and its numbers beside it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from revd.analysis.comparisons import comparison_figure
from revd.analysis.curves import WINDOW
from revd.analysis.export import (
    COMPARISON_COLUMNS,
    CURVE_COLUMNS,
    SCORE_COLUMNS,
    comparison_rows,
    curve_rows,
    score_rows,
    write_csv,
)
from revd.analysis.figures import save_figure
from revd.analysis.panels import curve_figure
from revd.analysis.results import Analysis, Result
from revd.analysis.styles import Style, method_styles

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


def publish(
    analysis: Analysis, directory: Path, *, window: int = WINDOW, tell: Tell = lambda path: None
) -> list[Published]:
    """Write all figures into a directory; `tell` is called with the PNG of each as soon as it is there."""
    directory.mkdir(parents=True, exist_ok=True)
    styles = method_styles(analysis.methods)
    return [_publish(result, directory, styles, window, tell) for result in analysis.results]


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
    png, pdf = (save_figure(figure, csv.with_suffix(suffix)) for suffix in (".png", ".pdf"))
    return Drawing(png=png, pdf=pdf, csv=csv)
