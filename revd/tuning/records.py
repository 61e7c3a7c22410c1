"""Records of trials, their ranking, and the table of results."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from revd.storage.atomic import write_whole

TrialState = Literal["running", "finished", "pruned", "failed"]
_ORDER: tuple[TrialState, ...] = ("finished", "running", "pruned", "failed")
RESULT_COLUMNS = ("rank", "trial", "state", "score", "steps")


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """One trial.

    Attributes:
        number: Its number, from 0.
        state: Its state.
        values: Its parameters by name.
        score: Its score, so far if it has not finished; None without a score.
        steps: Steps taken over all its seeds.
        error: Why it failed.
    """

    number: int
    state: TrialState
    values: Mapping[str, Any]
    score: float | None = None
    steps: int = 0
    error: str | None = None


def sort_trials(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Sort by state, then by score.

    Finished trials come first, because other scores are of less training.
    """
    return sorted(records, key=_sort_key)


def rank(record: TrialRecord, records: Sequence[TrialRecord]) -> int | None:
    """Rank among finished trials.

    1 for the best score, equal for equal scores; None for an unfinished trial.
    """
    if record.state != "finished" or record.score is None:
        return None
    return 1 + sum(score > record.score for score in _finished_scores(records))


def best_trials(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Finished trials with the highest score.

    Empty if none has finished, or if several have equal scores.
    """
    return [] if all_scores_equal(records) else [record for record in records if rank(record, records) == 1]


def all_scores_equal(records: Sequence[TrialRecord]) -> bool:
    """Whether several trials have finished, all with the same score, so that none is the best."""
    scores = _finished_scores(records)
    return len(scores) > 1 and len(set(scores)) == 1


def write_results(path: Path, records: Sequence[TrialRecord], names: Sequence[str]) -> None:
    """Write the table of all trials as CSV, with a column for each of the parameters `names`."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*RESULT_COLUMNS, *names, "error"])
    for record in sort_trials(records):
        values = [record.values.get(name) for name in names]
        rows.writerow(
            [rank(record, records), record.number, record.state, record.score, record.steps, *values, record.error]
        )
    write_whole(path, text.getvalue().encode())


def _sort_key(record: TrialRecord) -> tuple[int, bool, float, int]:
    return _ORDER.index(record.state), record.score is None, -(record.score or 0), record.number


def _finished_scores(records: Sequence[TrialRecord]) -> list[float]:
    return [record.score for record in records if record.state == "finished" and record.score is not None]
