"""Every plotted number as CSV. Missing numbers, such as the deviation of one seed, are empty cells."""

import csv
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from revd.analysis.reading.searches import Search
from revd.analysis.statistics.aggregate import Aggregate
from revd.analysis.statistics.curves import Curves
from revd.analysis.statistics.scores import RunScore

CURVE_COLUMNS = ("task", "method", "seeds", "steps", "mean", "std", "low", "high")
SCORE_COLUMNS = ("task", "method", "seed", "steps", "return", "normalized")
COMPARISON_COLUMNS = ("statistic", "method", "compared_with", "score", "value", "low", "high")

Row = tuple[object, ...]


def curve_rows(curves: Curves) -> Iterator[Row]:
    """Rows of the learning curves; `low` and `high` are the edges of the band."""
    for task, methods in curves.items():
        for method, curve in methods.items():
            for numbers in zip(curve.steps, curve.mean, curve.deviation, curve.low, curve.high, strict=True):
                yield task, method, curve.seeds, *numbers


def score_rows(scores: Iterable[RunScore]) -> Iterator[Row]:
    """Rows of the scores: the final return of every finished run, and its normalised value."""
    for score in scores:
        yield score.task, score.method, score.seed, score.steps, score.final, score.normalized


def comparison_rows(found: Aggregate) -> Iterator[Row]:
    """Rows of the comparison over tasks; `score` is the threshold of a profile."""
    for method, mean in found.iqm.items():
        yield "iqm", method, "", "", mean.value, mean.low, mean.high
    for (better, worse), chance in found.improvements.items():
        yield "probability_of_improvement", better, worse, "", chance.value, chance.low, chance.high
    for method, profile in found.profiles.items():
        for numbers in zip(profile.thresholds, profile.fraction, profile.low, profile.high, strict=True):
            yield "profile", method, "", *numbers


def search_columns(search: Search) -> tuple[str, ...]:
    """Columns of `search_rows`."""
    return "trial", "state", "score", *(parameter.name for parameter in search.parameters)


def search_rows(search: Search) -> Iterator[Row]:
    """Rows of the trials of a search; a pruned trial has its score when it was stopped."""
    for trial in search.trials:
        yield trial.number, trial.state, np.nan if trial.score is None else trial.score, *trial.values.values()


def write_csv(path: Path, columns: Iterable[str], rows: Iterable[Row]) -> Path:
    """Write a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value) for value in row] for row in rows)
    return path


def _cell(value: object) -> object:
    """Round floats to ten digits: the last digits are noise."""
    if isinstance(value, float | np.floating):
        return f"{value:.10g}" if math.isfinite(value) else ""
    return value
