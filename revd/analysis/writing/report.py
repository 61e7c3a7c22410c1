"""A Markdown page about a set of runs: tables, figures, failures, software and commands."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from revd.analysis.drawing.captions import comparison_caption, curve_caption, plural, search_caption, search_title
from revd.analysis.reading.commands import repeat_command
from revd.analysis.reading.runs import BONUS_COLUMNS, RecordedRun
from revd.analysis.reading.searches import Search
from revd.analysis.statistics.curves import WINDOW
from revd.analysis.statistics.figure_data import ReportData
from revd.analysis.statistics.grouping import group_by, other_settings, setting
from revd.analysis.statistics.scores import final_score, runs_with_score
from revd.analysis.writing.coverage_files import CoverageFiles
from revd.analysis.writing.coverage_section import coverage_section
from revd.analysis.writing.figure_files import FigureFiles, ImageFiles, ReportFiles, SearchFiles
from revd.analysis.writing.hand_written import hand_written
from revd.analysis.writing.markdown import MISSING, escape, link, numbers, percent, table
from revd.analysis.writing.return_tables import return_tables
from revd.storage.run_files import RUN

#: The reason if there is no figure.
NOTHING_TO_DRAW = "all runs failed, are damaged, or have no finished episode"
#: Most trials of a search in a table.
MAX_TRIALS = 20


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
        [*hand_written("introduction", parts, default="# Report"), _overview(data), ""],
        *([_what_was_run(data.runs), return_tables(data.runs, window=window)] if data.runs else []),
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


def _overview(data: ReportData) -> str:
    runs = data.all_runs
    finished = sum(run.finished for run in runs)
    tasks, methods = len({setting(run) for run in runs}), len({run.label for run in runs})
    content = f"{plural(tasks, 'task')}, {plural(methods, 'method')}"
    if data.searches:
        content += f", {len(data.searches)} searches" if len(data.searches) > 1 else ", 1 search"
    damaged = sum(run.damage is not None for run in runs)
    damaged_note = f", {damaged} damaged" if damaged else ""
    return f"{plural(len(runs), 'run')}, {finished} of them finished{damaged_note}: {content}."


def _what_was_run(runs: Sequence[RecordedRun]) -> list[str]:
    rows = []
    for (task, method), group in _by_method(runs).items():
        seeds = ", ".join(str(run.seed) for run in group)
        steps = " and ".join(f"{steps:,}" for steps in sorted({run.total_steps for run in group}))
        rows.append((task, method, seeds, steps, f"{sum(run.finished for run in group)} of {len(group)}"))
    lines = ["## What was run", "", *table(("task", "method", "seeds", "steps", "finished"), rows, numbers=2)]
    others = [f"- {escape(label)}: also {escape(text)}" for label, text in other_settings(runs).items()]
    return lines + others + [""] * bool(others)


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
    """The best trials, with the final return of their runs as in the tables of other runs."""
    names = [parameter.name for parameter in search.parameters]
    rows = []
    for trial in search.finished[:MAX_TRIALS]:
        finals = [final_score(run) for run in runs_with_score(search.runs_of(trial))]
        final = numbers(float(np.mean(finals)))[0] if len(finals) == search.seeds else MISSING
        rank = 1 + sum((other.score or 0.0) > (trial.score or 0.0) for other in search.finished)
        values = [trial.values[name] for name in names]
        rows.append((rank, trial.number, *values, *numbers(trial.score or 0.0), final))
    if not rows:
        return ["No trial has finished.", ""]
    finished = len(search.finished)
    count = f"{finished} of {plural(len(search.trials), 'trial')} finished"
    count += f"; the best {MAX_TRIALS}:" if finished > MAX_TRIALS else ":"
    columns = ("rank", "trial", *names, f"score ({search.metric})", "final return, mean over seeds")
    return [count, "", *table(columns, rows, numbers=len(columns))]


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
    rows = []
    for (task, method), group in _by_method(runs).items():
        means = [[run.bonus.get(name, np.nan) for run in group] for name in BONUS_COLUMNS]
        values = [[value for value in found if np.isfinite(value)] for found in means]
        if any(values):
            rows.append((task, method, *(percent(float(np.mean(found)) if found else np.nan) for found in values)))
    if not rows:
        return []
    explained = (
        "Share of the bonus in the absolute reward, and of its computation in the wall time: means over rollouts."
    )
    columns = ("task", "method", "share of the reward", "share of the time")
    return ["## The bonus", "", explained, "", *table(columns, rows, numbers=2)]


def _damaged(runs: Sequence[RecordedRun]) -> list[str]:
    """A table of damaged runs; nothing if there are none."""
    rows = [
        (setting(run), run.label, run.seed, run.state, run.damage, run.directory)
        for run in runs
        if run.damage is not None
    ]
    if not rows:
        return []
    explained = "Their numbers would be wrong, so they are in no table and no figure above."
    columns = ("task", "method", "seed", "state", "what is wrong", "directory")
    return ["## Damaged runs", "", explained, "", *table(columns, rows)]


def _incomplete(data: ReportData, unreadable: Sequence[str]) -> list[str]:
    """Failed and unfinished runs, without those of pruned trials, which are meant to be unfinished."""
    pruned = {run.directory for found in data.searches for run in found.search.pruned_runs}
    rows = [
        (
            setting(run),
            run.label,
            run.seed,
            run.state,
            f"{run.reached:,} of {run.total_steps:,}",
            run.error or "",
            run.directory,
        )
        for run in data.all_runs
        if not run.finished and run.directory not in pruned
    ]
    lines = ["## Failed and unfinished runs", ""]
    lines += table(("task", "method", "seed", "state", "steps", "error", "directory"), rows) if rows else ["None.", ""]
    reasons = [*unreadable, *data.notes]
    return lines + [f"- {escape(reason)}" for reason in reasons] + [""] * bool(reasons)


def _software(runs: Sequence[RecordedRun]) -> list[str]:
    rows = [(len(group), _hours(group), *origin) for origin, group in group_by(runs, _origin).items()]
    explained = "Hours of finished runs, each its wall-clock time alone; of a resumed run, its last session."
    columns = ("runs", "hours", "commit", "Python", "packages", "platform")
    return ["## Machine, hours and software", "", explained, "", *table(columns, rows)]


def _hours(runs: Sequence[RecordedRun]) -> str:
    seconds = sum(sum(run.seconds.values()) for run in runs)
    return f"{seconds / 3600:.2f}" if seconds else MISSING


def _origin(run: RecordedRun) -> tuple[str, str, str, str]:
    git, versions = _mapping(run.origin.get("git")), _mapping(run.origin.get("versions"))
    commit = str(git.get("commit") or MISSING)
    packages = ", ".join(f"{name} {version}" for name, version in versions.items()) or MISSING
    return commit, str(run.origin.get("python") or MISSING), packages, str(run.origin.get("platform") or MISSING)


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
    for group in [*_by_method(data.runs).values(), *filter(None, best)]:
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


def _by_method(runs: Sequence[RecordedRun]) -> dict[tuple[str, str], list[RecordedRun]]:
    return group_by(runs, lambda run: (setting(run), run.label))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
