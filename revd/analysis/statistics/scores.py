"""The score of each run: its final return, normalised so that tasks can be compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.grouping import group_by
from revd.arrays import Array
from revd.episodes import final_return

#: Fewest runs for which a bootstrap interval means anything.
MIN_SEEDS = 2
#: With fewer seeds of a method, it is called neither better nor worse than another.
JUDGED_SEEDS = 3

#: The worst and the best final return, by task and probability of hidden rewards.
ScoreLimits = Mapping[tuple[str, float | None], tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class RunScore:
    """The final return of one run; `normalized` is 0 for the worst and 1 for the best run on the task."""

    task: str
    method: str
    seed: int
    steps: int
    final: float
    normalized: float


@dataclass(frozen=True, kw_only=True)
class ScoreMatrices:
    """Normalised scores as (runs, tasks) matrices, as rliable expects, and notes on omissions."""

    tasks: tuple[str, ...]
    scores: Mapping[str, Array]
    notes: tuple[str, ...] = ()


def final_score(run: RecordedRun) -> float:
    """The final return of a run, as `revd.episodes` defines it; NaN if it is unfinished or damaged.

    An unfinished run has had less training than the others, and a damaged one lacks episodes.
    """
    final = final_return(run.episodes, run.total_steps) if run.is_comparable else None
    return np.nan if final is None else final


def runs_with_score(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """The runs that have a final score."""
    return [run for run in runs if np.isfinite(final_score(run))]


def score_limits(runs: Sequence[RecordedRun]) -> ScoreLimits:
    """The worst and the best final return of each task and setting, over the runs of all methods."""
    limits = {}
    for key, group in group_by(runs_with_score(runs), lambda run: (run.task, run.sparse)).items():
        finals = [final_score(run) for run in group]
        limits[key] = (min(finals), max(finals))
    return limits


def score_runs(runs: Sequence[RecordedRun], limits: ScoreLimits) -> list[RunScore]:
    """The scores of all runs that have one."""
    return [_score(run, limits[run.task, run.sparse]) for run in runs_with_score(runs)]


def score_matrices(scores: Sequence[RunScore], methods: Sequence[str]) -> ScoreMatrices:
    """Arrange the scores of several methods as complete matrices.

    Keeps the tasks that all methods have, and an equal number of a method's runs on each of them.
    """
    values = {(score.task, score.method): list[float]() for score in scores}
    for score in scores:
        values[score.task, score.method].append(score.normalized)
    known = [method for method in methods if any(score.method == method for score in scores)]
    notes = [f"{method} has no finished run" for method in methods if method not in known]
    all_tasks = sorted({score.task for score in scores})
    tasks = [task for task in all_tasks if all((task, method) in values for method in known)]
    notes += [
        f"{task} is left out: not every method has a finished run on it" for task in all_tasks if task not in tasks
    ]
    matrices = {}
    for method in known if tasks else ():
        matrix, left_out = _stack_columns([values[task, method] for task in tasks])
        if len(matrix) < MIN_SEEDS:
            notes.append(f"{method} is left out: intervals need at least {MIN_SEEDS} seeds on every task")
            continue
        matrices[method] = matrix
        if left_out:
            notes.append(f"{method}: {left_out} of its runs left out, for an equal number on every task")
    return ScoreMatrices(tasks=tuple(tasks), scores=matrices, notes=tuple(notes))


def _score(run: RecordedRun, limits: tuple[float, float]) -> RunScore:
    low, high = limits
    final = final_score(run)
    # If all runs are equal, none is better or worse.
    normalized = (final - low) / (high - low) if high > low else 0.5
    return RunScore(
        task=run.task, method=run.label, seed=run.seed, steps=run.total_steps, final=final, normalized=normalized
    )


def _stack_columns(columns: Sequence[Sequence[float]]) -> tuple[Array, int]:
    """Stack columns, cut to the length of the shortest; also the number of values cut off."""
    rows = min(len(column) for column in columns)
    matrix = np.array([column[:rows] for column in columns], dtype=np.float64).T
    return matrix, sum(len(column) - rows for column in columns)
