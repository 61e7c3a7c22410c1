"""The section of a Markdown report about visited states."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from revd.analysis.drawing.captions import pretty_setting
from revd.analysis.drawing.coverage_curves import CAPTION
from revd.analysis.drawing.heat_maps import heat_map_caption
from revd.analysis.statistics.coverage import CoverageResult
from revd.analysis.writing.coverage_files import CoverageFiles
from revd.analysis.writing.figure_files import ImageFiles
from revd.analysis.writing.formats import MISSING, percent
from revd.analysis.writing.markdown import escape, link, table
from revd.analysis.writing.tables import Table

#: What the numbers of `coverage_table` mean.
COVERAGE_EXPLAINED = (
    "Distinct cells that runs had visited by their ends, unfinished runs included. The share is of all cells of the "
    "task's grid, which may hold states that cannot be reached."
)
CURVES_TITLE = "distinct cells over the steps"


def coverage_section(files: CoverageFiles | None, page: Path) -> list[str]:
    """A table of the cells at the end, the curves and the heat maps; nothing if no run counted them."""
    if files is None:
        return []
    lines = ["## Coverage", "", COVERAGE_EXPLAINED, "", *table(coverage_table(files.data.results))]
    lines += _image(CURVES_TITLE, files.curves, CAPTION, page)
    for maps, images in files.maps:
        lines += _image(escape(map_title(maps.setting)), images, heat_map_caption(maps), page)
    notes = [f"- {escape(note)}" for note in files.data.notes]
    return lines + notes + [""] * bool(notes)


def coverage_table(results: Sequence[CoverageResult]) -> Table:
    """The cells that each method had visited on each task at the end."""
    columns = ("task", "method", "runs", "cells, mean", "smallest to largest", "share of all cells")
    return Table.of(columns, map(_row, results), numbers=4)


def map_title(setting: str) -> str:
    """What a heat map shows."""
    return f"visited states of {pretty_setting(setting)}"


def _row(result: CoverageResult) -> tuple[object, ...]:
    spread = f"{min(result.cells):,.0f} to {max(result.cells):,.0f}" if len(result.cells) > 1 else MISSING
    share = percent(float(np.mean(result.shares))) if result.shares else MISSING
    return result.setting, result.method, len(result.cells), f"{np.mean(result.cells):,.0f}", spread, share


def _image(title: str, files: ImageFiles, caption: str, page: Path) -> list[str]:
    links = f"[PDF]({link(files.pdf, page)}), [numbers]({link(files.csv, page)})."
    return [f"![{title}]({link(files.png, page)})", "", f"{caption} {links}", ""]
