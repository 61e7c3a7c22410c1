"""Every plotted number as CSV. Numbers that do not exist, such as the deviation of one seed, are empty cells."""

import csv
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from revd.analysis.reading.searches import Search
from revd.analysis.statistics.aggregate import Aggregate
from revd.analysis.statistics.figure_data import Curves
from revd.analysis.statistics.scores import Score

CURVE_COLUMNS = ("task", "method", "seeds", "steps", "mean", "std", "low", "high")
SCORE_COLUMNS = ("task", "method", "seed", "steps", "return", "normalized")
COMPARISON_COLUMNS = ("statistic", "method", "compared_with", "score", "value", "low", "high")

Row = tuple[object, ...]


def curve_rows(curves: Curves) -> Iterator[Row]:
    """The learning curves; `low` and `high` are the band's edges, which keep within the returns that were seen."""
    for task, methods in curves.items():
        for method, curve in methods.items():
            for numbers in zip(curve.steps, curve.mean, curve.deviation, curve.low, curve.high, strict=True):
                yield task, method, curve.seeds, *numbers


def score_rows(scores: Iterable[Score]) -> Iterator[Row]:
    """The final return of every finished run, as it was and as it enters the comparison."""
    for score in scores:
        yield score.task, score.method, score.seed, score.steps, score.final, score.normalized


def comparison_rows(found: Aggregate) -> Iterator[Row]:
    """The comparison over tasks; `score` is the profile's threshold."""
    for method, mean in found.iqm.items():
        yield "iqm", method, "", "", mean.value, mean.low, mean.high
    for (better, worse), chance in found.improvements.items():
        yield "probability_of_improvement", better, worse, "", chance.value, chance.low, chance.high
    for method, profile in found.profiles.items():
        for numbers in zip(profile.thresholds, profile.fraction, profile.low, profile.high, strict=True):
            yield "profile", method, "", *numbers


def search_columns(search: Search) -> tuple[str, ...]:
    """What is told of each trial."""
    return "trial", "state", "score", *(axis.name for axis in search.axes)


def search_rows(search: Search) -> Iterator[Row]:
    """The trials; pruned ones have the score that they had when they were stopped."""
    for trial in search.trials:
        yield trial.number, trial.state, np.nan if trial.score is None else trial.score, *trial.values.values()


def write_csv(path: Path, columns: Iterable[str], rows: Iterable[Row]) -> Path:
    """Write a table."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(value) for value in row] for row in rows)
    return path


def _cell(value: object) -> object:
    """Floats to ten digits, which no reader misses and which hide the noise of the last ones."""
    if isinstance(value, float | np.floating):
        return f"{value:.10g}" if math.isfinite(value) else ""
    return value
