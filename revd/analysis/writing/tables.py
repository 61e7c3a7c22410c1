"""The tables of a report as data, and sentences beside them. Pages write them as Markdown or HTML."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from revd.analysis.drawing.captions import plural
from revd.analysis.reading.runs import BONUS_COLUMNS, RecordedRun
from revd.analysis.reading.searches import Search
from revd.analysis.statistics.figure_data import ReportData
from revd.analysis.statistics.grouping import group_by, setting
from revd.analysis.statistics.scores import final_score, runs_with_score
from revd.analysis.writing.formats import MISSING, numbers, percent

#: Most trials of a search in a table.
MAX_TRIALS = 20

#: What the numbers of `bonus_table` mean.
BONUS_EXPLAINED = (
    "Share of the bonus in the absolute rewards, or with weight auto in the absolute advantages, and of its "
    "computation in the wall time: means over rollouts."
)
DAMAGE_EXPLAINED = "Their numbers would be wrong, so they are in no table and no figure above."
SOFTWARE_EXPLAINED = "Hours of finished runs, each its wall-clock time alone; of a resumed run, its last session."


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells of text, not escaped. The last `numbers` columns hold numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: int = 0

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: int = 0) -> Self:
        """A table of any values."""
        cells = tuple(tuple(str(cell) for cell in row) for row in rows)
        return cls(columns=tuple(columns), rows=cells, numbers=numbers)


def by_method(runs: Sequence[RecordedRun]) -> dict[tuple[str, str], list[RecordedRun]]:
    """Group runs by their task and setting, and their method."""
    return group_by(runs, lambda run: (setting(run), run.label))


def overview(data: ReportData) -> str:
    """How many runs there are, and of what."""
    runs = data.all_runs
    finished = sum(run.finished for run in runs)
    tasks, methods = len({setting(run) for run in runs}), len({run.label for run in runs})
    content = f"{plural(tasks, 'task')}, {plural(methods, 'method')}"
    if data.searches:
        content += f", {len(data.searches)} searches" if len(data.searches) > 1 else ", 1 search"
    damaged = sum(run.damage is not None for run in runs)
    damaged_note = f", {damaged} damaged" if damaged else ""
    return f"{plural(len(runs), 'run')}, {finished} of them finished{damaged_note}: {content}."


def run_table(runs: Sequence[RecordedRun]) -> Table:
    """What was run: seeds and steps of each method on each task."""
    rows = []
    for (task, method), group in by_method(runs).items():
        seeds = ", ".join(str(run.seed) for run in group)
        steps = " and ".join(f"{steps:,}" for steps in sorted({run.total_steps for run in group}))
        rows.append((task, method, seeds, steps, f"{sum(run.finished for run in group)} of {len(group)}"))
    return Table.of(("task", "method", "seeds", "steps", "finished"), rows, numbers=2)


def trial_table(search: Search) -> Table:
    """The best trials of a search, with the final return of their runs as in the tables of other runs."""
    names = [parameter.name for parameter in search.parameters]
    rows = []
    for trial in search.finished[:MAX_TRIALS]:
        finals = [final_score(run) for run in runs_with_score(search.runs_of(trial))]
        final = numbers(float(np.mean(finals)))[0] if len(finals) == search.seeds else MISSING
        rank = 1 + sum((other.score or 0.0) > (trial.score or 0.0) for other in search.finished)
        values = [trial.values[name] for name in names]
        rows.append((rank, trial.number, *values, *numbers(trial.score or 0.0), final))
    columns = ("rank", "trial", *names, f"score ({search.metric})", "final return, mean over seeds")
    return Table.of(columns, rows, numbers=len(columns))


def trial_count(search: Search) -> str:
    """How many trials have finished, as the sentence before their table."""
    finished = len(search.finished)
    if not finished:
        return "No trial has finished."
    count = f"{finished} of {plural(len(search.trials), 'trial')} finished"
    return count + (f"; the best {MAX_TRIALS}:" if finished > MAX_TRIALS else ":")


def bonus_table(runs: Sequence[RecordedRun]) -> Table:
    """How large the bonus was, and what it cost; no rows if no run logged it."""
    rows = []
    for (task, method), group in by_method(runs).items():
        means = [[run.bonus.get(name, np.nan) for run in group] for name in BONUS_COLUMNS]
        values = [[value for value in found if np.isfinite(value)] for found in means]
        if any(values):
            rows.append((task, method, *(percent(float(np.mean(found)) if found else np.nan) for found in values)))
    return Table.of(("task", "method", "share of the bonus", "share of the time"), rows, numbers=2)


def damage_table(runs: Sequence[RecordedRun]) -> Table:
    """The damaged runs, and what is wrong with each."""
    rows = [
        (setting(run), run.label, run.seed, run.state, run.damage, run.directory)
        for run in runs
        if run.damage is not None
    ]
    return Table.of(("task", "method", "seed", "state", "what is wrong", "directory"), rows)


def incomplete_table(data: ReportData) -> Table:
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
    return Table.of(("task", "method", "seed", "state", "steps", "error", "directory"), rows)


def software_table(runs: Sequence[RecordedRun]) -> Table:
    """Commits, versions and platforms, and the hours of their runs."""
    rows = [(len(group), _hours(group), *origin) for origin, group in group_by(runs, _origin).items()]
    return Table.of(("runs", "hours", "commit", "Python", "packages", "platform"), rows)


def _hours(runs: Sequence[RecordedRun]) -> str:
    seconds = sum(sum(run.seconds.values()) for run in runs)
    return f"{seconds / 3600:.2f}" if seconds else MISSING


def _origin(run: RecordedRun) -> tuple[str, str, str, str]:
    git, versions = _mapping(run.origin.get("git")), _mapping(run.origin.get("versions"))
    commit = str(git.get("commit") or MISSING)
    packages = ", ".join(f"{name} {version}" for name, version in versions.items()) or MISSING
    machine = ", ".join(str(run.origin[name]) for name in ("platform", "processor") if run.origin.get(name))
    return commit, str(run.origin.get("python") or MISSING), packages, machine or MISSING


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
