"""Reading the directories of searches: the searched parameters and the outcome of every trial."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from revd.analysis.reading.runs import RecordedRun
from revd.storage.csv_file import read_csv
from revd.storage.plain_file import read_plain_text

#: Descriptions of what a search maximises.
METRICS = {"final": "final return", "mean": "mean return over the training"}

_DESCRIPTION, _RESULTS, _TRIALS = "study.json", "results.csv", "trials"


@dataclass(frozen=True, kw_only=True)
class RecordedTrial:
    """One trial: its parameters as text from the table, and its score so far, if it has one."""

    number: int
    state: str
    score: float | None
    values: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class SearchedParameter:
    """A parameter of a search.

    Attributes:
        name: Its name.
        bounds: The smallest and the greatest value; None for a list of values.
        is_log: Whether values were drawn on a logarithmic scale.
    """

    name: str
    bounds: tuple[float, float] | None = None
    is_log: bool = False


@dataclass(frozen=True, kw_only=True)
class Search:
    """One search and its trials. `runs` holds the readable runs of the trials."""

    directory: Path
    metric: str
    seeds: int
    parameters: tuple[SearchedParameter, ...]
    trials: tuple[RecordedTrial, ...]
    runs: tuple[RecordedRun, ...]

    @property
    def finished(self) -> list[RecordedTrial]:
        """Finished trials with a score, the best first."""
        done = [trial for trial in self.trials if trial.state == "finished" and trial.score is not None]
        return sorted(done, key=lambda trial: (-(trial.score or 0.0), trial.number))

    @property
    def best(self) -> list[RecordedTrial]:
        """Trials with the highest score.

        Empty if none has finished, or if several finished with equal scores.
        """
        first = self.finished[:1]
        equal = [trial for trial in self.finished if trial.score == first[0].score]
        return [] if len(equal) == len(self.finished) > 1 else equal

    @property
    def pruned_runs(self) -> list[RecordedRun]:
        """The runs of pruned trials."""
        return [run for trial in self.trials if trial.state == "pruned" for run in self.runs_of(trial)]

    def runs_of(self, trial: RecordedTrial) -> list[RecordedRun]:
        """The runs of a trial."""
        return [run for run in self.runs if trial_number(run.directory) == trial.number]


def search_directory(run: Path) -> Path | None:
    """The directory of the search that a run belongs to; None if it belongs to none."""
    trials = run.parent.parent
    if trials.name != _TRIALS or trial_number(run) is None or not (trials.parent / _DESCRIPTION).is_file():
        return None
    return trials.parent


def trial_number(run: Path) -> int | None:
    """The number of the trial that a run belongs to; None outside a search."""
    name = run.parent.name
    return int(name) if name.isascii() and name.isdigit() else None


def load_search(directory: Path, runs: Sequence[RecordedRun]) -> Search:
    """Read `study.json` and `results.csv` of a search; a ValueError says what is wrong with them."""
    try:
        described = json.loads(read_plain_text(directory / _DESCRIPTION))
        parameters = tuple(_parse_parameter(name, words) for name, words in dict(described["search"]).items())
        if not parameters:
            raise ValueError(f"{_DESCRIPTION} names no searched parameter")
        return Search(
            directory=directory,
            metric=METRICS[described["metric"]],
            seeds=int(described["seeds"]),
            parameters=parameters,
            trials=tuple(_read_trials(directory / _RESULTS, [parameter.name for parameter in parameters])),
            runs=tuple(runs),
        )
    except (OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = f"{error} is missing or unknown" if isinstance(error, KeyError) else error
        raise ValueError(f"{str(directory)!r} is not the directory of a search: {reason}") from error


def _parse_parameter(name: str, words: Any) -> SearchedParameter:
    """Parse `weight=0.001:10.0:log` or a list such as `k=3,5`."""
    values = str(words).removeprefix(f"{name}=")
    low, colon, rest = values.partition(":")
    if "," in values or not colon:
        return SearchedParameter(name=name)
    high, _, scale = rest.partition(":")
    return SearchedParameter(name=name, bounds=(float(low), float(high)), is_log=scale == "log")


def _read_trials(path: Path, names: Sequence[str]) -> Iterable[RecordedTrial]:
    columns, rows, _ = read_csv(path)
    for line, cells in rows:
        if cells is None:
            raise ValueError(f"line {line} of {path.name} is not a row of {len(columns)} values")
        row = dict(zip(columns, cells, strict=True))
        score = float(row["score"] or "nan")
        yield RecordedTrial(
            number=int(row["trial"]),
            state=row["state"],
            score=score if math.isfinite(score) else None,
            values={name: row[name] for name in names},
        )
