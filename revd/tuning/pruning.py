"""When a trial is given up.

Optuna's MedianPruner compares the best that a trial has ever reported. Scores of a trial with several seeds begin anew
with each of them, so that the end of its first run would shield it for good; here its newest score counts.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from revd.episodes import PARTS

#: Trials that have finished before one may be pruned, and parts of each of its runs that it may have for certain. A
#: bonus pays late: an agent that explores more earns less at first.
FIRST_TRIALS, FIRST_PARTS = 5, 3


def falls_behind(part: int, score: float, finished: Sequence[Mapping[int, float]]) -> bool:
    """Whether a trial with this score after `part` does worse than the median of the finished ones did there.

    Args:
        part: The part, numbered over all its runs as `trial_scores` does.
        score: Its score after that part.
        finished: The scores of finished trials by part.
    """
    part_of_run = (part - 1) % PARTS + 1
    if part_of_run < FIRST_PARTS:
        return False
    others = [value for scores in finished if math.isfinite(value := scores.get(part, math.nan))]
    return len(others) >= FIRST_TRIALS and score < median(others)
