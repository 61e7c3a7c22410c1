"""One Markdown page about a set of runs: what was run, what came out, and what did not."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from revd.analysis.aggregate import CONFIDENCE, RESAMPLES, interquartile_mean
from revd.analysis.commands import repeat_command
from revd.analysis.comparisons import comparison_caption
from revd.analysis.curves import WINDOW
from revd.analysis.groups import group_by
from revd.analysis.markdown import MISSING, escape, link, numbers, percent, plural, table
from revd.analysis.panels import curve_caption
from revd.analysis.publish import Published
from revd.analysis.results import Analysis
from revd.analysis.runs import Run, load_progress
from revd.analysis.scores import FEWEST_SEEDS, final_score, scored
from revd.episodes import FINAL_RETURN

#: Why there may be no figure.
NOTHING_TO_DRAW = "no run that is neither failed nor damaged has a finished episode"
BONUS_COLUMNS = ("exploration/bonus_share", "exploration/time_fraction")


def report(
    analysis: Analysis,
    published: Sequence[Published],
    page: Path,
    *,
    unreadable: Sequence[str] = (),
    window: int = WINDOW,
) -> str:
    """The page's text; links are relative to `page`."""
    sections = [
        ["# Report", "", _overview(analysis.runs), ""],
        _what_was_run(analysis.runs),
        _returns(analysis.runs),
        _figures(published, page, window),
        _bonus(analysis.runs),
        _damaged(analysis.runs),
        _incomplete(analysis.runs, unreadable),
        _software(analysis.runs),
        _commands(analysis.runs),
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


def _overview(runs: Sequence[Run]) -> str:
    finished = sum(run.finished for run in runs)
    tasks, methods = len({setting(run) for run in runs}), len({run.label for run in runs})
    what = f"{plural(tasks, 'task')}, {plural(methods, 'method')}"
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


def _figures(published: Sequence[Published], page: Path, window: int) -> list[str]:
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


def _incomplete(runs: Sequence[Run], unreadable: Sequence[str]) -> list[str]:
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
        for run in runs
        if not run.finished
    ]
    lines = ["## Failed and unfinished runs", ""]
    lines += table(("task", "method", "seed", "state", "steps", "error", "directory"), rows) if rows else ["None.", ""]
    return lines + [f"- {escape(reason)}" for reason in unreadable] + [""] * bool(unreadable)


def _software(runs: Sequence[Run]) -> list[str]:
    rows = [(len(group), *origin) for origin, group in group_by(runs, _origin).items()]
    return ["## Software", "", *table(("runs", "commit", "Python", "packages", "platform"), rows)]


def _origin(run: Run) -> tuple[str, str, str, str]:
    git, versions = _mapping(run.origin.get("git")), _mapping(run.origin.get("versions"))
    commit = str(git.get("commit") or MISSING)
    packages = ", ".join(f"{name} {version}" for name, version in versions.items()) or MISSING
    return commit, str(run.origin.get("python") or MISSING), packages, str(run.origin.get("platform") or MISSING)


def _commands(runs: Sequence[Run]) -> list[str]:
    lines = [
        "## Commands to repeat it",
        "",
        "One for each task and method; the other seeds differ in `--seed` alone.",
        "",
    ]
    lines.append("```sh")
    left_out = 0
    for group in _by_method(runs).values():
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
