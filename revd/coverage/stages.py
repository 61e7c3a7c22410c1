"""Visits of a plane at some steps of a training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from revd.arrays import Array
from revd.coverage.grid import Axis

#: Steps between the first stages.
FIRST_INTERVAL = 1_000
#: Most stages that are kept.
MAX_STAGES = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """The visits up to a step of the training.

    Attributes:
        steps: Environment steps by then.
        distinct: Distinct cells by then, of all coordinates.
        cells: The visited cells of the plane, (m, 2).
        visits: Their visits, (m,).
    """

    steps: int
    distinct: int
    cells: Array
    visits: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Visits:
    """A plane, and its visits at some stages of a training, the last of which is the newest."""

    plane: tuple[Axis, Axis]
    stages: tuple[Stage, ...]


class Stages:
    """Keeps stages at equal distances. When there are `MAX_STAGES`, every second one goes, and the distance doubles.

    So a training of unknown length ends with 8 to 16 of them, and a run that is resumed with more steps has the same
    stages as one that was never interrupted.
    """

    def __init__(self) -> None:
        self.kept: list[Stage] = []
        self.interval = FIRST_INTERVAL

    def offer(self, steps: int, make: Callable[[], Stage]) -> None:
        """Keep the stage of this step if one is due; `make` is called only then."""
        if not _is_later(steps, self.kept, self.interval):
            return
        self.kept.append(make())
        while len(self.kept) >= MAX_STAGES:
            self.interval *= 2
            self.kept = _thinned(self.kept, self.interval)


def _is_later(steps: int, kept: list[Stage], interval: int) -> bool:
    """Whether a multiple of the interval lies between the last stage and this step."""
    return steps // interval > (kept[-1].steps // interval if kept else 0)


def _thinned(stages: list[Stage], interval: int) -> list[Stage]:
    """The stages that would have been kept at this interval."""
    kept: list[Stage] = []
    for stage in stages:
        if _is_later(stage.steps, kept, interval):
            kept.append(stage)
    return kept
