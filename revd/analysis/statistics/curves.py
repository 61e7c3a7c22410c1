"""Learning curves and statistics of them. Pure functions of arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from revd.arrays import Array
from revd.episodes import Episodes

#: Episodes in a mean return; as many as in SB3's `ep_rew_mean`, so that the live display and the curves agree.
WINDOW = 100


@dataclass(frozen=True, kw_only=True)
class SeedRange:
    """Mean, smallest and largest value over seeds: a range, not a confidence interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class RangeCurve:
    """Learning curves over seeds: `curves` (seeds, points) at `steps` (points,), their mean and range."""

    steps: Array
    curves: Array
    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Mean and sample standard deviation (n - 1) of the return over seeds, each (points,) at `steps`.

    The deviation of a single seed is NaN. The band is cut off at `lowest` and `highest`, the limits of the returns.
    """

    steps: Array
    mean: Array
    deviation: Array
    seeds: int
    lowest: float = -np.inf
    highest: float = np.inf

    @property
    def low(self) -> Array:
        """Lower edge of the band: one deviation below the mean, at least the lowest return."""
        edge: Array = np.maximum(self.mean - self.deviation, self.lowest)
        return edge

    @property
    def high(self) -> Array:
        """Upper edge of the band: one deviation above the mean, at most the highest return."""
        edge: Array = np.minimum(self.mean + self.deviation, self.highest)
        return edge


#: Learning curves by task and method.
Curves = Mapping[str, Mapping[str, Curve]]


def recent_mean(episodes: Episodes, steps: Array, *, window: int = WINDOW) -> Array:
    """Mean return of the last `window` episodes that had ended by each of `steps`; NaN before the first.

    While fewer than `window` episodes have ended, the mean is over those.
    """
    _check_window(window)
    last = np.searchsorted(episodes.steps, steps, side="right")
    first = np.maximum(last - window, 0)
    sums = np.concatenate([[0.0], np.cumsum(episodes.returns)])
    count = last - first
    return np.where(count > 0, (sums[last] - sums[first]) / np.maximum(count, 1), np.nan)


def steps_to_reach(episodes: Episodes, threshold: float, *, window: int = WINDOW) -> float | None:
    """Steps until the mean return of the last `window` episodes reaches `threshold`; None if never.

    Only full windows count, so that one lucky first episode is no success.
    """
    _check_window(window)
    if len(episodes.returns) < window:
        return None
    means = np.convolve(episodes.returns, np.full(window, 1.0 / window), mode="valid")
    reached = np.flatnonzero(means >= threshold)
    return float(episodes.steps[window - 1 + reached[0]]) if len(reached) else None


def seed_range(values: Sequence[float]) -> SeedRange:
    """Mean, smallest and largest of one number for each seed."""
    if not values:
        raise ValueError("values must hold at least one number, got none")
    return SeedRange(mean=float(np.mean(values)), low=float(np.min(values)), high=float(np.max(values)))


def curve(
    seeds: Sequence[Episodes],
    *,
    grid: Array,
    until: float,
    window: int = WINDOW,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Curve:
    """The learning curve over several seeds at the steps of `grid` up to `until`.

    The band is cut off at `limits`, the lowest and the highest return.
    """
    steps, curves = _stack_curves(seeds, grid[grid <= until], window)
    deviation = curves.std(axis=0, ddof=1) if len(seeds) > 1 else np.full(len(steps), np.nan)
    lowest, highest = limits
    return Curve(
        steps=steps,
        mean=curves.mean(axis=0),
        deviation=deviation,
        seeds=len(seeds),
        lowest=lowest,
        highest=highest,
    )


def return_range(seeds: Sequence[Episodes]) -> tuple[float, float]:
    """The smallest and the largest return of any episode; infinite limits if there are no episodes."""
    returns = np.concatenate([np.empty(0), *(episodes.returns for episodes in seeds)])
    return (float(returns.min()), float(returns.max())) if len(returns) else (-np.inf, np.inf)


def step_grid(last: float, *, points: int = 200) -> Array:
    """Evenly spaced steps up to `last`, without 0."""
    return np.linspace(0, last, points + 1)[1:]


def range_curve(seeds: Sequence[Episodes], *, total_steps: int, points: int = 200, window: int = WINDOW) -> RangeCurve:
    """The learning curves of several seeds on one grid, from the first point at which all have episodes."""
    steps, curves = _stack_curves(seeds, step_grid(total_steps, points=points), window)
    return RangeCurve(
        steps=steps, curves=curves, mean=curves.mean(axis=0), low=curves.min(axis=0), high=curves.max(axis=0)
    )


def _stack_curves(seeds: Sequence[Episodes], steps: Array, window: int) -> tuple[Array, Array]:
    """Curves of all seeds, from the first step at which all have episodes.

    Returns:
        The remaining steps (points,), and the curves (seeds, points).
    """
    if not seeds:
        raise ValueError("seeds must hold the episodes of at least one run, got none")
    curves = np.stack([recent_mean(episodes, steps, window=window) for episodes in seeds])
    known = ~np.isnan(curves).any(axis=0)
    return steps[known], curves[:, known]


def _check_window(window: int) -> None:
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}")
