"""One number for each run, made comparable between tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from revd.analysis.reading.grouping import group_by
from revd.analysis.reading.runs import Run
from revd.episodes import Array, final_return

#: Least number of runs whose resampling says anything.
FEWEST_SEEDS = 2

Limits = Mapping[tuple[str, float | None], tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Score:
    """The final return of one run, and where it lies between the worst (0) and the best (1) run of its task."""

    task: str
    method: str
    seed: int
    steps: int
    final: float
    normalized: float


@dataclass(frozen=True, kw_only=True)
class Matrices:
    """Normalised scores as rliable wants them: one (runs, tasks) matrix for each method, and what was left out."""

    tasks: tuple[str, ...]
    scores: Mapping[str, Array]
    notes: tuple[str, ...] = ()


def final_score(run: Run) -> float:
    """
    The final return of a finished run (`revd.episodes` says what that is); else NaN.

    A run under way would be judged by less training than the others had, a damaged one by the wrong episodes.
    """
    final = final_return(run.episodes, run.total_steps) if run.counts else None
    return np.nan if final is None else final


def scored(runs: Sequence[Run]) -> list[Run]:
    """Runs that have a final score."""
    return [run for run in runs if np.isfinite(final_score(run))]


def score_limits(runs: Sequence[Run]) -> Limits:
    """The worst and the best final return of each task and setting, over the runs of all methods."""
    limits = {}
    for key, group in group_by(scored(runs), lambda run: (run.task, run.sparse)).items():
        finals = [final_score(run) for run in group]
        limits[key] = (min(finals), max(finals))
    return limits


def score_runs(runs: Sequence[Run], limits: Limits) -> list[Score]:
    """The scores of all finished runs."""
    return [_score(run, limits[run.task, run.sparse]) for run in scored(runs)]


def score_matrices(scores: Sequence[Score], methods: Sequence[str]) -> Matrices:
    """
    Scores of several methods as complete matrices.

    Kept are the tasks that all methods have, and of a method as many runs as it has on each of those.
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
        matrix, left_out = _matrix([values[task, method] for task in tasks])
        if len(matrix) < FEWEST_SEEDS:
            notes.append(f"{method} is left out: intervals need at least {FEWEST_SEEDS} seeds on every task")
            continue
        matrices[method] = matrix
        if left_out:
            notes.append(f"{method}: {left_out} of its runs left out, for an equal number on every task")
    return Matrices(tasks=tuple(tasks), scores=matrices, notes=tuple(notes))


def _score(run: Run, limits: tuple[float, float]) -> Score:
    low, high = limits
    final = final_score(run)
    # Where all runs are equal, none is better or worse.
    normalized = (final - low) / (high - low) if high > low else 0.5
    return Score(
        task=run.task, method=run.label, seed=run.seed, steps=run.total_steps, final=final, normalized=normalized
    )


def _matrix(columns: Sequence[Sequence[float]]) -> tuple[Array, int]:
    """Columns cut to the shortest of them, and how many values that costs."""
    rows = min(len(column) for column in columns)
    matrix = np.array([column[:rows] for column in columns], dtype=np.float64).T
    return matrix, sum(len(column) - rows for column in columns)
