"""Reading the directories of searches: what was searched, and what became of the trials."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from revd.analysis.reading.runs import Run
from revd.storage.csv_file import read_csv
from revd.storage.plain_file import read_plain_text

#: What a search maximises, in words.
METRICS = {"final": "final return", "mean": "mean return over the training"}

_DESCRIPTION, _RESULTS, _TRIALS = "study.json", "results.csv", "trials"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One trial: its parameters as the table has them, and its score so far, None if there is none."""

    number: int
    state: str
    score: float | None
    values: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class SearchAxis:
    """
    A parameter that was searched.

    Attributes:
        name: What it is called.
        ends: The range of its values; None for choices.
        is_log: Whether every decade was searched alike.
    """

    name: str
    ends: tuple[float, float] | None = None
    is_log: bool = False


@dataclass(frozen=True, kw_only=True)
class Search:
    """One search and its trials. `runs` are those of its trials that could be read."""

    directory: Path
    metric: str
    seeds: int
    axes: tuple[SearchAxis, ...]
    trials: tuple[Trial, ...]
    runs: tuple[Run, ...]

    @property
    def finished(self) -> list[Trial]:
        """Trials that can be compared, the best first."""
        done = [trial for trial in self.trials if trial.state == "finished" and trial.score is not None]
        return sorted(done, key=lambda trial: (-(trial.score or 0.0), trial.number))

    @property
    def best(self) -> list[Trial]:
        """Those with the highest score; none if none has finished, or if all of several have the same."""
        first = self.finished[:1]
        equal = [trial for trial in self.finished if trial.score == first[0].score]
        return [] if len(equal) == len(self.finished) > 1 else equal

    @property
    def pruned_runs(self) -> list[Run]:
        """The runs of trials that were given up."""
        return [run for trial in self.trials if trial.state == "pruned" for run in self.runs_of(trial)]

    def runs_of(self, trial: Trial) -> list[Run]:
        """The runs of a trial, by seed."""
        return [run for run in self.runs if trial_number(run.directory) == trial.number]


def search_directory(run: Path) -> Path | None:
    """The search that a run is a trial's of; None if it is of none."""
    trials = run.parent.parent
    if trials.name != _TRIALS or trial_number(run) is None or not (trials.parent / _DESCRIPTION).is_file():
        return None
    return trials.parent


def trial_number(run: Path) -> int | None:
    """The trial that a run in a search's directory belongs to."""
    name = run.parent.name
    return int(name) if name.isascii() and name.isdigit() else None


def load_search(directory: Path, runs: Sequence[Run]) -> Search:
    """Read a search's two tables; a ValueError says what is wrong with them."""
    try:
        described = json.loads(read_plain_text(directory / _DESCRIPTION))
        axes = tuple(_axis(name, words) for name, words in dict(described["search"]).items())
        if not axes:
            raise ValueError(f"{_DESCRIPTION} names no parameter that was searched")
        return Search(
            directory=directory,
            metric=METRICS[described["metric"]],
            seeds=int(described["seeds"]),
            axes=axes,
            trials=tuple(_trials(directory / _RESULTS, [axis.name for axis in axes])),
            runs=tuple(runs),
        )
    except (OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = f"{error} is missing or unknown" if isinstance(error, KeyError) else error
        raise ValueError(f"{str(directory)!r} is not the directory of a search: {reason}") from error


def _axis(name: str, words: Any) -> SearchAxis:
    """From `weight=0.001:10.0:log`, or with choices `k=3,5`."""
    values = str(words).removeprefix(f"{name}=")
    low, colon, rest = values.partition(":")
    if "," in values or not colon:
        return SearchAxis(name=name)
    high, _, scale = rest.partition(":")
    return SearchAxis(name=name, ends=(float(low), float(high)), is_log=scale == "log")


def _trials(path: Path, names: Sequence[str]) -> Iterable[Trial]:
    columns, rows, _ = read_csv(path)
    for line, cells in rows:
        if cells is None:
            raise ValueError(f"line {line} of {path.name} is no row of {len(columns)} values")
        row = dict(zip(columns, cells, strict=True))
        score = float(row["score"] or "nan")
        yield Trial(
            number=int(row["trial"]),
            state=row["state"],
            score=score if math.isfinite(score) else None,
            values={name: row[name] for name in names},
        )
