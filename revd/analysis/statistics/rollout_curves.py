"""Curves of what trainings log after each rollout, such as the weight of the bonus."""

from collections.abc import Sequence

import numpy as np

from revd.analysis.reading.runs import ROLLOUT_STEPS, RecordedRun
from revd.analysis.statistics.curves import Curve, step_grid
from revd.analysis.statistics.grouping import group_by
from revd.arrays import Array


def rollout_curves(runs: Sequence[RecordedRun], column: str) -> dict[str, Curve]:
    """By method, the mean of a logged column over the runs that have it; the runs must be of one task and setting.

    Like a learning curve, it ends where the shortest of its runs does, and its band is cut off at the smallest and the
    largest value.
    """
    logged = [run for run in runs if run.is_drawable and column in run.rollouts and ROLLOUT_STEPS in run.rollouts]
    grid = step_grid(max((run.reached for run in logged), default=0))
    curves = {
        method: _curve([rollout_means(run, column, grid) for run in group], grid, min(run.reached for run in group))
        for method, group in group_by(logged, lambda run: run.label).items()
    }
    return {method: curve for method, curve in curves.items() if len(curve.steps)}


def rollout_means(run: RecordedRun, column: str, grid: Array) -> Array:
    """The mean over the rollouts that ended between two steps of `grid`; if none did, the value of the one before.

    NaN before the first rollout that logged a value.
    """
    steps, values = run.rollouts[ROLLOUT_STEPS], run.rollouts[column]
    known = np.isfinite(steps) & np.isfinite(values)
    order = np.argsort(steps[known], kind="stable")
    steps, sums = steps[known][order], np.concatenate([[0.0], np.cumsum(values[known][order])])
    last = np.searchsorted(steps, grid, side="right")
    first = np.minimum(np.concatenate([[0], last[:-1]]), np.maximum(last - 1, 0))
    count = last - first
    return np.where(count > 0, (sums[last] - sums[first]) / np.maximum(count, 1), np.nan)


def _curve(seeds: Sequence[Array], grid: Array, until: float) -> Curve:
    values = np.stack(seeds)
    shown = ~np.isnan(values).any(axis=0) & (grid <= until)
    found = values[:, shown]
    deviation = found.std(axis=0, ddof=1) if len(seeds) > 1 else np.full(found.shape[1], np.nan)
    limits = {"lowest": float(found.min()), "highest": float(found.max())} if found.size else {}
    return Curve(steps=grid[shown], mean=found.mean(axis=0), deviation=deviation, seeds=len(seeds), **limits)
