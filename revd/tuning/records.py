"""How trials stand, from the best to those that failed, and the file that says so."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from revd.storage.atomic import write_whole

TrialState = Literal["running", "finished", "pruned", "failed"]
_ORDER: tuple[TrialState, ...] = ("finished", "running", "pruned", "failed")
COLUMNS = ("rank", "trial", "state", "score", "steps")


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """One trial.

    Attributes:
        number: Its number, from 0.
        state: What became of it.
        values: Its parameters by name.
        score: What it is worth; of one that is not finished, as far as it has come. None if nobody knows.
        steps: Steps taken, over all its seeds.
        error: Why it failed.
    """

    number: int
    state: TrialState
    values: Mapping[str, Any]
    score: float | None = None
    steps: int = 0
    error: str | None = None


def ranked(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Finished ones first, the best of them first; the scores of others are of less training, and no match for them."""
    return sorted(records, key=lambda one: (_ORDER.index(one.state), one.score is None, -(one.score or 0), one.number))


def rank(record: TrialRecord, records: Sequence[TrialRecord]) -> int | None:
    """1 for the best score; trials with equal scores have equal ranks. None for one that is not finished."""
    if record.state != "finished" or record.score is None:
        return None
    return 1 + sum(score > record.score for score in _finished_scores(records))


def best(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """The finished ones with the highest score; none if none has finished, or if there is no difference."""
    return [] if all_tie(records) else [one for one in records if rank(one, records) == 1]


def all_tie(records: Sequence[TrialRecord]) -> bool:
    """Whether several trials have finished and all of them have the same score: none of them is the best."""
    scores = _finished_scores(records)
    return len(scores) > 1 and len(set(scores)) == 1


def write_results(path: Path, records: Sequence[TrialRecord], names: Sequence[str]) -> None:
    """Replace the table of all trials, a CSV file with a column for each of the parameters `names`."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*COLUMNS, *names, "error"])
    for one in ranked(records):
        values = [one.values.get(name) for name in names]
        rows.writerow([rank(one, records), one.number, one.state, one.score, one.steps, *values, one.error])
    write_whole(path, text.getvalue().encode())


def _finished_scores(records: Sequence[TrialRecord]) -> list[float]:
    return [one.score for one in records if one.state == "finished" and one.score is not None]
