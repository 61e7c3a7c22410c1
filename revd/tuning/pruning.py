"""The rule for pruning trials.

Optuna's MedianPruner compares the best score that a trial has reported. The scores of a trial with several seeds start
over with each seed, so that a good end of its first run would protect it forever. Here the newest score is compared.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from revd.episodes import PARTS

#: No trial is pruned before this many trials have finished.
MIN_FINISHED_TRIALS = 5
#: No trial is pruned in the first parts of a run, because an agent that explores more earns less at first.
MIN_PARTS = 3


def is_below_median(part: int, score: float, finished: Sequence[Mapping[int, float]]) -> bool:
    """Whether the score of a trial after `part` is below the median of finished trials.

    Args:
        part: Number of the part over all its runs, as in `trial_scores`.
        score: Score of the trial after that part.
        finished: The scores of finished trials by part.
    """
    part_of_run = (part - 1) % PARTS + 1
    if part_of_run < MIN_PARTS:
        return False
    others = [value for scores in finished if math.isfinite(value := scores.get(part, math.nan))]
    return len(others) >= MIN_FINISHED_TRIALS and score < median(others)
