"""One Markdown page about a set of runs: what was run, what came out, and what did not."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from revd.analysis.drawing.comparisons import comparison_caption
from revd.analysis.drawing.search_figure import search_caption, search_title
from revd.analysis.drawing.task_curves import curve_caption
from revd.analysis.markdown import MISSING, escape, link, numbers, percent, plural, table
from revd.analysis.reading.commands import repeat_command
from revd.analysis.reading.grouping import group_by
from revd.analysis.reading.runs import Run, load_progress
from revd.analysis.reading.searches import Search
from revd.analysis.statistics.aggregate import CONFIDENCE, RESAMPLES, interquartile_mean
from revd.analysis.statistics.curves import WINDOW
from revd.analysis.statistics.figure_data import Analysis
from revd.analysis.statistics.scores import FEWEST_SEEDS, final_score, scored
from revd.analysis.writing.figure_files import Publication, PublishedSearch
from revd.episodes import FINAL_RETURN

#: Why there may be no figure.
NOTHING_TO_DRAW = "no run that is neither failed nor damaged has a finished episode"
#: Trials of a search that are listed.
TRIALS = 20
BONUS_COLUMNS = ("exploration/bonus_share", "exploration/time_fraction")


def report(
    analysis: Analysis,
    published: Publication,
    page: Path,
    *,
    unreadable: Sequence[str] = (),
    window: int = WINDOW,
) -> str:
    """The page's text; links are relative to `page`."""
    sections = [
        ["# Report", "", _overview(analysis), ""],
        *([_what_was_run(analysis.runs), _returns(analysis.runs)] if analysis.runs else []),
        _searches(published.searches, page, window),
        _figures(published, page, window),
        _bonus(analysis.runs),
        _damaged(analysis.all_runs),
        _incomplete(analysis, unreadable),
        _software(analysis.all_runs),
        _commands(analysis),
    ]
    return "\n".join(line for section in sections for line in section).rstrip() + "\n"


def setting(run: Run) -> str:
    """A task and whether its rewards were sparse."""
    return run.task if run.sparse is None else f"{run.task}, sparse {run.sparse:g}"


def bonus_means(run: Run) -> dict[str, float]:
    """The bonus's share of the reward and of the time, averaged over a run's rollouts; NaN where none was logged."""
    progress = load_progress(run.directory / "progress.csv")
    logged = {name: progress.get(name, np.empty(0)) for name in BONUS_COLUMNS}
    finite = {name: values[np.isfinite(values)] for name, values in logged.items()}
    return {name: float(values.mean()) if len(values) else float("nan") for name, values in finite.items()}


def _overview(analysis: Analysis) -> str:
    runs = analysis.all_runs
    finished = sum(run.finished for run in runs)
    tasks, methods = len({setting(run) for run in runs}), len({run.label for run in runs})
    what = f"{plural(tasks, 'task')}, {plural(methods, 'method')}"
    if analysis.searches:
        what += f", {len(analysis.searches)} searches" if len(analysis.searches) > 1 else ", 1 search"
    damaged = sum(run.damage is not None for run in runs)
    told = f", {damaged} damaged" if damaged else ""
    return f"{plural(len(runs), 'run')}, {finished} of them finished{told}: {what}."


def _what_was_run(runs: Sequence[Run]) -> list[str]:
    rows = []
    for (task, method), group in _by_method(runs).items():
        seeds = ", ".join(str(run.seed) for run in group)
        steps = " and ".join(f"{steps:,}" for steps in sorted({run.total_steps for run in group}))
        rows.append((task, method, seeds, steps, f"{sum(run.finished for run in group)} of {len(group)}"))
    return ["## What was run", "", *table(("task", "method", "seeds", "steps", "finished"), rows, numbers=2)]


def _returns(runs: Sequence[Run]) -> list[str]:
    lines = [
        "## Final returns",
        "",
        f"Of finished runs that are not damaged: {FINAL_RETURN}. ± is the sample standard deviation (n - 1) over "
        f"seeds; IQM the interquartile mean with its {CONFIDENCE:.0%} bootstrap interval ({RESAMPLES:,} "
        f"resamples), which takes {FEWEST_SEEDS} seeds.",
        "",
    ]
    columns = ("method", "seeds", "mean final return ± std", "IQM", f"{CONFIDENCE:.0%} interval")
    for task, group in group_by(runs, setting).items():
        rows = [_final_row(method, found) for method, found in group_by(group, lambda run: run.label).items()]
        lines += [f"### {escape(task)}", "", *table(columns, rows, numbers=4)]
    return lines


def _final_row(method: str, runs: Sequence[Run]) -> tuple[object, ...]:
    finals = np.array([final_score(run) for run in scored(runs)])
    if not len(finals):
        return method, 0, MISSING, MISSING, MISSING
    if len(finals) < FEWEST_SEEDS:
        return method, len(finals), *numbers(float(finals[0])), MISSING, MISSING
    middle = interquartile_mean(finals[:, None])
    mean, deviation, iqm, low, high = numbers(
        float(finals.mean()), float(finals.std(ddof=1)), middle.value, middle.low, middle.high
    )
    return method, len(finals), f"{mean} ± {deviation}", iqm, f"{low} to {high}"


def _searches(published: Sequence[PublishedSearch], page: Path, window: int) -> list[str]:
    """What each search found, its trials by score, and its figures; nothing where there are none."""
    lines = ["## Searches", ""] if published else []
    for entry in published:
        search, curves = entry.result.search, entry.result.curves
        title = escape(search_title(search))
        lines += [f"### {title}", "", f"![{title}: scores]({link(entry.scores.png, page)})", ""]
        lines += [f"{escape(search_caption(search))} {_files(entry.scores.pdf, entry.scores.csv, page)}", ""]
        lines += _trials(search)
        if entry.curves is not None and curves is not None:
            lines += [f"![{title}: learning curves]({link(entry.curves.png, page)})", ""]
            caption = escape(curve_caption(curves, window=window))
            lines += [f"{caption} {_files(entry.curves.pdf, entry.curves.csv, page)}", ""]
    return lines


def _trials(search: Search) -> list[str]:
    """The best trials, with the final return of their runs as the tables of other runs have it."""
    names = [axis.name for axis in search.axes]
    rows = []
    for trial in search.finished[:TRIALS]:
        finals = [final_score(run) for run in scored(search.runs_of(trial))]
        final = numbers(float(np.mean(finals)))[0] if len(finals) == search.seeds else MISSING
        place = 1 + sum((other.score or 0.0) > (trial.score or 0.0) for other in search.finished)
        values = [trial.values[name] for name in names]
        rows.append((place, trial.number, *values, *numbers(trial.score or 0.0), final))
    if not rows:
        return ["No trial has finished.", ""]
    finished, all_of_them = len(search.finished), len(search.trials)
    told = f"{finished} of {plural(all_of_them, 'trial')} finished" + (
        f"; the best {TRIALS}:" if finished > TRIALS else ":"
    )
    columns = ("rank", "trial", *names, f"score ({search.metric})", "final return, mean over seeds")
    return [told, "", *table(columns, rows, numbers=len(columns))]


def _figures(publication: Publication, page: Path, window: int) -> list[str]:
    published = publication.results
    if publication.searches and not published:
        return []
    lines = ["## Figures", ""]
    if not published:
        lines += [f"None: {NOTHING_TO_DRAW}.", ""]
    for entry in published:
        result = entry.result
        title = escape(result.selection.title)
        lines += [f"### {title}", ""]
        lines += [f"![{title}: learning curves]({link(entry.curves.png, page)})", ""]
        lines += [
            f"{escape(curve_caption(result, window=window))} {_files(entry.curves.pdf, entry.curves.csv, page)}",
            "",
        ]
        if entry.comparison is not None and result.aggregate is not None:
            lines += [f"![{title}: comparison over tasks]({link(entry.comparison.png, page)})", ""]
            files = f"{_files(entry.comparison.pdf, entry.comparison.csv, page)} [Scores]({link(entry.scores, page)})."
            lines += [f"{escape(comparison_caption(result.aggregate))} {files}", ""]
        lines += [f"- {escape(note)}" for note in result.notes] + [""] * bool(result.notes)
    return lines


def _files(pdf: Path, csv: Path, page: Path) -> str:
    return f"[PDF]({link(pdf, page)}), [numbers]({link(csv, page)})."


def _bonus(runs: Sequence[Run]) -> list[str]:
    rows = []
    for (task, method), group in _by_method(runs).items():
        means = [bonus_means(run) for run in group]
        values = [[found[name] for found in means if np.isfinite(found[name])] for name in BONUS_COLUMNS]
        if any(values):
            rows.append((task, method, *(percent(float(np.mean(found)) if found else np.nan) for found in values)))
    if not rows:
        return []
    explained = (
        "Share of the bonus in the absolute reward, and of its computation in the wall time: means over rollouts."
    )
    columns = ("task", "method", "share of the reward", "share of the time")
    return ["## The bonus", "", explained, "", *table(columns, rows, numbers=2)]


def _damaged(runs: Sequence[Run]) -> list[str]:
    """Nothing where there are none."""
    rows = [
        (setting(run), run.label, run.seed, run.state, run.damage, run.directory)
        for run in runs
        if run.damage is not None
    ]
    if not rows:
        return []
    explained = "Their numbers are in no table and no figure above, since they would be wrong."
    columns = ("task", "method", "seed", "state", "what is wrong", "directory")
    return ["## Damaged runs", "", explained, "", *table(columns, rows)]


def _incomplete(analysis: Analysis, unreadable: Sequence[str]) -> list[str]:
    """Trials that a search gave up are not among them: that is how searches go."""
    pruned = {run.directory for found in analysis.searches for run in found.search.pruned_runs}
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
        for run in analysis.all_runs
        if not run.finished and run.directory not in pruned
    ]
    lines = ["## Failed and unfinished runs", ""]
    lines += table(("task", "method", "seed", "state", "steps", "error", "directory"), rows) if rows else ["None.", ""]
    reasons = [*unreadable, *analysis.notes]
    return lines + [f"- {escape(reason)}" for reason in reasons] + [""] * bool(reasons)


def _software(runs: Sequence[Run]) -> list[str]:
    rows = [(len(group), *origin) for origin, group in group_by(runs, _origin).items()]
    return ["## Software", "", *table(("runs", "commit", "Python", "packages", "platform"), rows)]


def _origin(run: Run) -> tuple[str, str, str, str]:
    git, versions = _mapping(run.origin.get("git")), _mapping(run.origin.get("versions"))
    commit = str(git.get("commit") or MISSING)
    packages = ", ".join(f"{name} {version}" for name, version in versions.items()) or MISSING
    return commit, str(run.origin.get("python") or MISSING), packages, str(run.origin.get("platform") or MISSING)


def _commands(analysis: Analysis) -> list[str]:
    best = [search.runs_of(search.best[0]) for found in analysis.searches if (search := found.search).best]
    lines = [
        "## Commands to repeat it",
        "",
        "One for each task and method, and the best of each search; the other seeds differ in `--seed` alone.",
        "",
    ]
    lines.append("```sh")
    left_out = 0
    for group in [*_by_method(analysis.runs).values(), *filter(None, best)]:
        repeat = repeat_command(group[0].origin.get("repeat"))
        others = ", ".join(str(run.seed) for run in group[1:])
        if repeat is None:
            left_out += 1
        else:
            lines.append(repeat + (f"  # and seeds {others}" if others else ""))
    lines += ["```", ""]
    if left_out:
        lines += [f"{plural(left_out, 'command')} left out: `run.json` holds none, or not one of `revd train`.", ""]
    return lines


def _by_method(runs: Sequence[Run]) -> dict[tuple[str, str], list[Run]]:
    return group_by(runs, lambda run: (setting(run), run.label))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
