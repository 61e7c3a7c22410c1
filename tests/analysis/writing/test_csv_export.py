import csv

import numpy as np
import pytest

from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.aggregate import Aggregate, Estimate, Profile
from revd.analysis.statistics.figure_data import analyse_runs
from revd.analysis.writing.csv_export import (
    COMPARISON_COLUMNS,
    CURVE_COLUMNS,
    SCORE_COLUMNS,
    comparison_rows,
    curve_rows,
    score_rows,
    write_csv,
)
from tests.analysis.support import write_run


def written(path, columns, rows):
    with write_csv(path, columns, rows).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def result(tmp_path):
    write_run(tmp_path / "runs" / "a", seed=1, steps=200, returns=range(20))
    write_run(tmp_path / "runs" / "b", seed=2, steps=200, returns=[4.5] * 20)
    write_run(tmp_path / "runs" / "c", method="PPO+REVD", steps=200, returns=[1 / 3] * 20)
    (found,) = analyse_runs(load_runs(tmp_path / "runs"), window=2).figures
    return found


def test_every_point_of_the_curves(tmp_path, result):
    rows = written(tmp_path / "a.csv", CURVE_COLUMNS, curve_rows(result.curves))
    plain = [row for row in rows if row["method"] == "PPO"]
    assert [float(row["steps"]) for row in plain] == list(range(10, 201))
    at_50 = next(row for row in plain if row["steps"] == "50")
    mean, std = np.mean([3.5, 4.5]), np.std([3.5, 4.5], ddof=1)
    assert (at_50["task"], at_50["seeds"]) == ("MountainCar-v0", "2")
    np.testing.assert_allclose(
        [float(at_50[name]) for name in ("mean", "std", "low", "high")], [mean, std, mean - std, mean + std]
    )
    alone = next(row for row in rows if row["method"] == "PPO+REVD")
    assert (alone["mean"], alone["std"], alone["low"], alone["high"]) == ("0.3333333333", "", "", "")


def test_every_score(tmp_path, result):
    rows = written(tmp_path / "a.csv", SCORE_COLUMNS, score_rows(result.scores))
    assert [(row["method"], row["seed"], row["return"]) for row in rows] == [
        ("PPO", "1", "18.5"), ("PPO", "2", "4.5"), ("PPO+REVD", "1", "0.3333333333")
    ]  # fmt: skip
    assert float(rows[1]["normalized"]) == pytest.approx((4.5 - 1 / 3) / (18.5 - 1 / 3))


def test_every_estimate(tmp_path):
    points = np.array([0.0, 1.0])
    found = Aggregate(
        tasks=("a",),
        seeds={"PPO": 2},
        iqm={"PPO": Estimate(value=0.5, low=0.25, high=0.75)},
        profiles={"PPO": Profile(thresholds=points, fraction=1 - points, low=points, high=points)},
        improvements={("PPO", "A2C"): Estimate(value=0.6, low=0.1, high=0.9)},
    )
    rows = written(tmp_path / "a.csv", COMPARISON_COLUMNS, comparison_rows(found))
    assert [tuple(row.values()) for row in rows] == [
        ("iqm", "PPO", "", "", "0.5", "0.25", "0.75"),
        ("probability_of_improvement", "PPO", "A2C", "", "0.6", "0.1", "0.9"),
        ("profile", "PPO", "", "0", "1", "0", "0"),
        ("profile", "PPO", "", "1", "0", "1", "1"),
    ]
