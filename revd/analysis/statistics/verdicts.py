"""Which of two methods is better on a task, as a word that also says how sure that is.

The words follow from the probability of improvement, its bootstrap interval and the number of seeds. `benchmarks/
verdicts.py` measures how often they are wrong for two equal methods.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from revd.analysis.reading.runs import RecordedRun
from revd.analysis.statistics.aggregate import Estimate, probability_of_improvement
from revd.analysis.statistics.curves import WINDOW, steps_to_reach
from revd.analysis.statistics.grouping import group_by
from revd.analysis.statistics.scores import JUDGED_SEEDS, MIN_SEEDS, final_score, runs_with_score
from revd.analysis.statistics.task_results import base_methods

Judgement = Literal[
    "clearly better", "probably better", "not told apart", "probably worse", "clearly worse", "too few seeds"
]
#: With fewer seeds of either method nothing is called clear: bootstrap intervals of so few runs are too narrow.
CLEAR_SEEDS = 5
#: From this probability of improvement on, a method may be called clearly better.
CLEAR_CHANCE = 0.9


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How the runs of one method compare with those of the same algorithm without a bonus, by one measure.

    Attributes:
        method: The method.
        base: The method without a bonus.
        seeds: Runs of both.
        threshold: The measure: the steps until the return reached this threshold. None: the final return.
        reached: How many runs of both reached it.
        chance: The probability that a run of the method does better than one of `base`; None with one seed of either.
    """

    method: str
    base: str
    seeds: tuple[int, int]
    chance: Estimate | None
    threshold: float | None = None
    reached: tuple[int, int] = (0, 0)

    @property
    def judgement(self) -> Judgement:
        """The word."""
        return judge(self.chance, seeds=min(self.seeds))


def judge(chance: Estimate | None, *, seeds: int) -> Judgement:
    """The word for a probability of improvement, of so many seeds of each method."""
    if chance is None or seeds < JUDGED_SEEDS:
        return "too few seeds"
    if chance.low <= 0.5 <= chance.high:
        return "not told apart"
    clear = seeds >= CLEAR_SEEDS and max(chance.value, 1 - chance.value) >= CLEAR_CHANCE
    if chance.value > 0.5:
        return "clearly better" if clear else "probably better"
    return "clearly worse" if clear else "probably worse"


def verdicts(runs: Sequence[RecordedRun], *, threshold: float | None = None, window: int = WINDOW) -> list[Verdict]:
    """Compare each method with the one without a bonus, by the steps to the threshold and by the final return.

    The runs must be of one task and setting. Runs without a final return do not count.
    """
    groups = group_by(runs_with_score(runs), lambda run: run.label)
    pairs = [(one, base) for one, base in base_methods(runs).items() if one in groups and base in groups]
    found = []
    for method, base in pairs:
        judged = [final_return_verdict(groups[method], groups[base])]
        if threshold is not None:
            judged.insert(0, steps_verdict(groups[method], groups[base], threshold=threshold, window=window))
        found += judged
    return found


def final_return_verdict(runs: Sequence[RecordedRun], others: Sequence[RecordedRun]) -> Verdict:
    """Compare the final returns of one method's runs with those of another."""
    return _verdict(runs, others, [[final_score(run) for run in group] for group in (runs, others)])


def steps_verdict(
    runs: Sequence[RecordedRun], others: Sequence[RecordedRun], *, threshold: float, window: int = WINDOW
) -> Verdict:
    """Compare the steps of one method's runs to a threshold with those of another.

    Runs that never reach it are equally late, and later than all others.
    """
    steps = [[steps_to_reach(run.episodes, threshold, window=window) for run in group] for group in (runs, others)]
    # Finite, because rliable subtracts the scores.
    never = 2.0 * max(run.total_steps for run in (*runs, *others))
    verdict = _verdict(runs, others, [[-(never if taken is None else taken) for taken in group] for group in steps])
    reached = [sum(taken is not None for taken in group) for group in steps]
    return replace(verdict, threshold=threshold, reached=(reached[0], reached[1]))


def _verdict(runs: Sequence[RecordedRun], others: Sequence[RecordedRun], scores: Sequence[Sequence[float]]) -> Verdict:
    better, worse = (np.array(group, dtype=np.float64)[:, None] for group in scores)
    enough = min(len(better), len(worse)) >= MIN_SEEDS
    return Verdict(
        method=runs[0].label,
        base=others[0].label,
        seeds=(len(better), len(worse)),
        chance=probability_of_improvement(better, worse) if enough else None,
    )
