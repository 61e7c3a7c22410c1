"""Where the time of trainings went."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from revd.analysis.reading.runs import RecordedRun

#: The parts of a training's wall-clock time, as `status.json` names them.
TIME_PARTS = ("environment", "acting", "bonus", "update", "other")


@dataclass(frozen=True, kw_only=True)
class TimeUse:
    """The mean seconds of some runs by part, the sum of those, and how many runs they are of."""

    seconds: Mapping[str, float]
    total: float
    runs: int

    def share(self, part: str) -> float:
        """The part's fraction of the total."""
        return self.seconds[part] / self.total


def time_use(runs: Sequence[RecordedRun]) -> TimeUse | None:
    """The time of the runs that recorded it, which are finished ones; None if none did."""
    timed = [run.seconds for run in runs if any(max(run.seconds.get(part, 0.0), 0.0) for part in TIME_PARTS)]
    if not timed:
        return None
    seconds = {part: float(np.mean([max(found.get(part, 0.0), 0.0) for found in timed])) for part in TIME_PARTS}
    return TimeUse(seconds=seconds, total=sum(seconds.values()), runs=len(timed))
