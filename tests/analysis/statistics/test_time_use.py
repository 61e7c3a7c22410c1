from dataclasses import fields, replace

import pytest

from revd.analysis.statistics.time_use import TIME_PARTS, time_use
from revd.training.timing import TimeBreakdown
from tests.analysis.support import make_runs


def test_the_parts_are_those_that_a_training_measures():
    assert tuple(part.name for part in fields(TimeBreakdown)) == TIME_PARTS


def test_means_are_over_the_runs_with_times(tmp_path):
    (run,) = make_runs(tmp_path, {})
    timed = [replace(run, seconds={"environment": seconds, "update": 60.0}) for seconds in (20.0, 60.0)]
    found = time_use([run, *timed])
    assert found.runs == 2
    assert found.total == 100
    assert found.share("environment") == pytest.approx(0.4)
    assert found.share("bonus") == 0


def test_no_times_are_no_use(tmp_path):
    (run,) = make_runs(tmp_path, {})
    assert time_use([run]) is None
    assert time_use([replace(run, seconds={"environment": -3.0, "nonsense": 5.0})]) is None
