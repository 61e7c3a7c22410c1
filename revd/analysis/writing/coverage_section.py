"""The section of a Markdown report about visited states."""

from pathlib import Path

import numpy as np

from revd.analysis.drawing.captions import pretty_setting
from revd.analysis.drawing.coverage_curves import CAPTION
from revd.analysis.drawing.heat_maps import heat_map_caption
from revd.analysis.statistics.coverage import CoverageResult
from revd.analysis.writing.coverage_files import CoverageFiles
from revd.analysis.writing.figure_files import ImageFiles
from revd.analysis.writing.markdown import MISSING, escape, link, percent, table

_COLUMNS = ("task", "method", "runs", "cells, mean", "smallest to largest", "share of all cells")
_EXPLAINED = (
    "Distinct cells that runs had visited by their ends, unfinished runs included. The share is of all cells of the "
    "task's grid, which may hold states that cannot be reached."
)


def coverage_section(files: CoverageFiles | None, page: Path) -> list[str]:
    """A table of the cells at the end, the curves and the heat maps; nothing if no run counted them."""
    if files is None:
        return []
    rows = [_row(result) for result in files.data.results]
    lines = ["## Coverage", "", _EXPLAINED, "", *table(_COLUMNS, rows, numbers=4)]
    lines += _image("distinct cells over the steps", files.curves, CAPTION, page)
    for maps, images in files.maps:
        title = f"visited states of {escape(pretty_setting(maps.setting))}"
        lines += _image(title, images, heat_map_caption(maps), page)
    notes = [f"- {escape(note)}" for note in files.data.notes]
    return lines + notes + [""] * bool(notes)


def _row(result: CoverageResult) -> tuple[object, ...]:
    spread = f"{min(result.cells):,.0f} to {max(result.cells):,.0f}" if len(result.cells) > 1 else MISSING
    share = percent(float(np.mean(result.shares))) if result.shares else MISSING
    return result.setting, result.method, len(result.cells), f"{np.mean(result.cells):,.0f}", spread, share


def _image(title: str, files: ImageFiles, caption: str, page: Path) -> list[str]:
    links = f"[PDF]({link(files.pdf, page)}), [numbers]({link(files.csv, page)})."
    return [f"![{title}]({link(files.png, page)})", "", f"{caption} {links}", ""]
