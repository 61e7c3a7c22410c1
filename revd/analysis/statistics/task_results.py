"""The results of each method on one task: final return, steps to a threshold, and how often it beats the plain one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.aggregate import Estimate, bootstrap_mean, probability_of_improvement
from revd.analysis.statistics.curves import WINDOW, steps_to_reach
from revd.analysis.statistics.figure_plans import FigurePlan
from revd.analysis.statistics.grouping import group_by
from revd.analysis.statistics.scores import JUDGED_SEEDS, MIN_SEEDS, final_score, runs_with_score


@dataclass(frozen=True, kw_only=True)
class Reaching:
    """How many runs reached the threshold, and the median of their steps; infinite if fewer than half did."""

    count: int
    median: float


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """Results of one method on one task, over its runs that have a final return.

    `final` is the mean final return, with NaN as interval if there are too few seeds. `reaching` is None for a task
    without a threshold. `improvement` is the probability that a run beats one of `base`, the method without a bonus.
    """

    method: str
    seeds: int
    final: Estimate | None
    reaching: Reaching | None = None
    base: str | None = None
    improvement: Estimate | None = None

    @property
    def is_ahead(self) -> bool:
        """Whether it is better than its base: the whole interval of the probability is above one half."""
        return self._judged and self.improvement is not None and self.improvement.low > 0.5

    @property
    def is_behind(self) -> bool:
        """Whether it is worse than its base: the whole interval is below one half."""
        return self._judged and self.improvement is not None and self.improvement.high < 0.5

    @property
    def _judged(self) -> bool:
        return self.seeds >= JUDGED_SEEDS


def task_results(
    runs: Sequence[RecordedRun], *, threshold: float | None = None, window: int = WINDOW
) -> list[TaskResult]:
    """The results of all methods; the runs must be of one task and setting."""
    groups = {label: runs_with_score(group) for label, group in group_by(runs, lambda run: run.label).items()}
    bases = base_methods(runs)
    return [_result(label, groups, bases.get(label), threshold, window) for label in groups]


def base_methods(runs: Sequence[RecordedRun]) -> dict[str, str]:
    """By method with a bonus, the one without that it is compared with, as in the figures."""
    plan = FigurePlan(name="", title="", runs=tuple(runs), pairs=())
    plain = {run.label for run in runs if "+" not in run.method}
    return {
        better: worse for better, worse in plan.compared_pairs(plan.methods) if worse in plain and better not in plain
    }


def _result(
    label: str, groups: dict[str, list[RecordedRun]], base: str | None, threshold: float | None, window: int
) -> TaskResult:
    finals = np.array([final_score(run) for run in groups[label]])
    others = np.array([final_score(run) for run in groups[base]]) if base is not None else np.empty(0)
    enough = min(len(finals), len(others)) >= MIN_SEEDS
    return TaskResult(
        method=label,
        seeds=len(finals),
        final=_mean(finals) if len(finals) else None,
        reaching=None if threshold is None or not len(finals) else _reaching(groups[label], threshold, window),
        base=base,
        improvement=probability_of_improvement(finals[:, None], others[:, None]) if enough else None,
    )


def _mean(finals: np.ndarray) -> Estimate:
    if len(finals) < MIN_SEEDS:
        return Estimate(value=float(finals.mean()), low=np.nan, high=np.nan)
    return bootstrap_mean(finals)


def _reaching(runs: Sequence[RecordedRun], threshold: float, window: int) -> Reaching:
    found = [steps_to_reach(run.episodes, threshold, window=window) for run in runs]
    reached = [steps for steps in found if steps is not None]
    never = [np.inf] * (len(found) - len(reached))
    return Reaching(count=len(reached), median=float(np.median([*reached, *never])))
