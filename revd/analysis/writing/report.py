"""A Markdown page about a set of runs: tables, figures, failures, software and commands."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from revd.analysis.drawing.captions import comparison_caption, curve_caption, plural, search_caption, search_title
from revd.analysis.reading.commands import repeat_command
from revd.analysis.reading.runs import RecordedRun
from revd.analysis.reading.searches import Search
from revd.analysis.statistics.curves import WINDOW
from revd.analysis.statistics.figure_data import ReportData
from revd.analysis.statistics.grouping import other_settings
from revd.analysis.writing.coverage_files import CoverageFiles
from revd.analysis.writing.coverage_section import coverage_section
from revd.analysis.writing.figure_files import FigureFiles, ImageFiles, ReportFiles, SearchFiles
from revd.analysis.writing.hand_written import hand_written
from revd.analysis.writing.markdown import escape, link, table
from revd.analysis.writing.method_tables import final_table
from revd.analysis.writing.return_tables import TaskTable, returns_explained, task_tables, verdicts
from revd.analysis.writing.tables import (
    BONUS_EXPLAINED,
    DAMAGE_EXPLAINED,
    SOFTWARE_EXPLAINED,
    bonus_table,
    by_method,
    damage_table,
    incomplete_table,
    overview,
    run_table,
    software_table,
    trial_count,
    trial_table,
)
from revd.storage.run_files import RUN

#: The reason if there is no figure.
NOTHING_TO_DRAW = "all runs failed, are damaged, or have no finished episode"


def report(
    data: ReportData,
    files: ReportFiles,
    page: Path,
    *,
    coverage: CoverageFiles | None = None,
    unreadable: Sequence[str] = (),
    parts: Mapping[str, str] = MappingProxyType({}),
    window: int = WINDOW,
) -> str:
    """The text of the page, with the `parts` that people wrote; links are relative to `page`."""
    sections = [
        [*hand_written("introduction", parts, default="# Report"), overview(data), ""],
        *([_what_was_run(data.runs), _returns(data.runs, window)] if data.runs else []),
        _searches(files.searches, page, window),
        _figures(files, page, window),
        coverage_section(coverage, page),
        hand_written("findings", parts),
        _bonus(data.runs),
        _damaged(data.all_runs),
        _incomplete(data, unreadable),
        _software(data.all_runs),
        _commands(data),
    ]
    return "\n".join(line for section in sections for line in section).rstrip() + "\n"


def _what_was_run(runs: Sequence[RecordedRun]) -> list[str]:
    lines = ["## What was run", "", *table(run_table(runs))]
    others = [f"- {escape(label)}: also {escape(text)}" for label, text in other_settings(runs).items()]
    return lines + others + [""] * bool(others)


def _returns(runs: Sequence[RecordedRun], window: int) -> list[str]:
    """What the columns mean, all tasks in one table, and one for each task and setting."""
    lines = ["## Final returns", "", returns_explained(window), ""]
    found = task_tables(runs, window=window)
    if len(found) > 1:
        lines += ["### All tasks", "", *final_table([each.column for each in found])]
    for each in found:
        lines += [f"### {escape(each.task)}", "", *table(each.table), *_verdict(each)]
    return lines


def _verdict(found: TaskTable) -> list[str]:
    return [line for sentence in verdicts(found.results) for line in (escape(sentence), "")]


def _searches(searches: Sequence[SearchFiles], page: Path, window: int) -> list[str]:
    """The best trials and the figures of each search; nothing without searches."""
    lines = ["## Searches", ""] if searches else []
    for files in searches:
        search, curves = files.data.search, files.data.curves
        title = escape(search_title(search))
        lines += [f"### {title}", "", *_image(f"{title}: scores", files.scores, search_caption(search), page)]
        lines += _trials(search)
        if files.curves is not None and curves is not None:
            caption = curve_caption(curves, window=window)
            lines += _image(f"{title}: learning curves", files.curves, caption, page)
    return lines


def _trials(search: Search) -> list[str]:
    found = trial_table(search)
    return [trial_count(search), "", *(table(found) if found.rows else [])]


def _figures(files: ReportFiles, page: Path, window: int) -> list[str]:
    if files.searches and not files.figures:
        return []
    lines = ["## Figures", ""]
    if not files.figures:
        lines += [f"None: {NOTHING_TO_DRAW}.", ""]
    for figure in files.figures:
        lines += _figure(figure, page, window)
    return lines


def _figure(files: FigureFiles, page: Path, window: int) -> list[str]:
    data = files.data
    title = escape(data.plan.title)
    lines = [f"### {title}", ""]
    if files.curves is not None:
        lines += _image(f"{title}: learning curves", files.curves, curve_caption(data, window=window), page)
    if files.comparison is not None and data.aggregate is not None:
        scores = f" [Scores]({link(files.scores, page)})."
        caption = comparison_caption(data.aggregate)
        lines += _image(f"{title}: comparison over tasks", files.comparison, caption, page, more=scores)
    return lines + [f"- {escape(note)}" for note in data.notes] + [""] * bool(data.notes)


def _image(title: str, files: ImageFiles, caption: str, page: Path, *, more: str = "") -> list[str]:
    """An image, and below it its caption with links to its other files."""
    links = f"[PDF]({link(files.pdf, page)}), [numbers]({link(files.csv, page)}).{more}"
    return [f"![{title}]({link(files.png, page)})", "", f"{escape(caption)} {links}", ""]


def _bonus(runs: Sequence[RecordedRun]) -> list[str]:
    found = bonus_table(runs)
    return ["## The bonus", "", BONUS_EXPLAINED, "", *table(found)] if found.rows else []


def _damaged(runs: Sequence[RecordedRun]) -> list[str]:
    found = damage_table(runs)
    return ["## Damaged runs", "", DAMAGE_EXPLAINED, "", *table(found)] if found.rows else []


def _incomplete(data: ReportData, unreadable: Sequence[str]) -> list[str]:
    found = incomplete_table(data)
    reasons = [*unreadable, *data.notes]
    lines = ["## Failed and unfinished runs", "", *(table(found) if found.rows else ["None.", ""])]
    return lines + [f"- {escape(reason)}" for reason in reasons] + [""] * bool(reasons)


def _software(runs: Sequence[RecordedRun]) -> list[str]:
    return ["## Machine, hours and software", "", SOFTWARE_EXPLAINED, "", *table(software_table(runs))]


def _commands(data: ReportData) -> list[str]:
    best = [search.runs_of(search.best[0]) for found in data.searches if (search := found.search).best]
    lines = [
        "## Commands to repeat it",
        "",
        "One for each task and method, and the best of each search; other seeds differ only in `--seed`.",
        "",
    ]
    lines.append("```sh")
    left_out = 0
    for group in [*by_method(data.runs).values(), *filter(None, best)]:
        repeat = repeat_command(group[0].origin.get("repeat"))
        others = ", ".join(str(run.seed) for run in group[1:])
        if repeat is None:
            left_out += 1
        else:
            lines.append(repeat + (f"  # and seeds {others}" if others else ""))
    lines += ["```", ""]
    if left_out:
        lines += [f"{plural(left_out, 'command')} left out: `{RUN}` has no `revd train` command.", ""]
    return lines
