import numpy as np
import pytest

from revd.analysis.statistics.grouping import name_variants
from revd.analysis.statistics.task_results import task_results
from tests.analysis.support import make_runs


def runs_of(folder, finals, **settings):
    """Runs of ten-step episodes with one return each, from seed 1 on."""
    return [{"seed": seed, "returns": [final] * 100, **settings} for seed, final in enumerate(finals, start=1)]


def test_the_mean_and_its_interval(tmp_path):
    (found,) = task_results(make_runs(tmp_path, *runs_of(tmp_path, [0.0, 1.0, 5.0])))
    assert (found.method, found.seeds, found.final.value) == ("PPO", 3, pytest.approx(2))
    assert found.final.low == 0, "one of 27 resamples is all zeros, which is more than 2.5%"
    assert found.final.high == 5
    assert found.reaching is found.base is found.improvement is None


def test_one_seed_has_no_interval_and_none_has_no_mean(tmp_path):
    runs = make_runs(
        tmp_path, *runs_of(tmp_path, [3.0]), {"method": "PPO+REVD", "state": "running", "returns": [1.0] * 100}
    )
    one, none = task_results(runs, threshold=1)
    assert one.final.value == 3
    assert np.isnan([one.final.low, one.final.high]).all()
    assert (none.seeds, none.final, none.reaching, none.base, none.improvement) == (0, None, None, "PPO", None)


@pytest.mark.parametrize(
    ("finals", "count", "median"), [([1, 1, 0], 2, 1000), ([0, 0, 1], 1, np.inf), ([0, 0], 0, np.inf)]
)
def test_a_run_that_never_reaches_the_threshold_counts_as_the_longest(finals, count, median, tmp_path):
    (found,) = task_results(make_runs(tmp_path, *runs_of(tmp_path, finals)), threshold=0.5)
    assert (found.reaching.count, found.reaching.median) == (count, median)


def test_methods_are_compared_with_their_own_algorithm_without_a_bonus(tmp_path):
    runs = make_runs(
        tmp_path,
        *runs_of(tmp_path, [1.0, 2.0]),
        *runs_of(tmp_path, [5.0, 6.0], method="A2C"),
        *runs_of(tmp_path, [1.0, 3.0], method="PPO+REVD", weight=1),
        *runs_of(tmp_path, [9.0, 9.5], method="PPO+REVD", weight="auto"),
        *runs_of(tmp_path, [0.0, 0.5], method="A2C+REVD"),
    )
    found = {result.method: result for result in task_results(name_variants(runs))}
    assert {method: result.base for method, result in found.items()} == {
        "A2C": None, "PPO": None, "A2C+REVD": "A2C", "PPO+REVD (weight=1)": "PPO", "PPO+REVD (weight=auto)": "PPO"
    }  # fmt: skip
    # Of the four pairs of runs 3 > 1 and 3 > 2 are wins, 1 = 1 is half a win, and 1 < 2 is none.
    assert found["PPO+REVD (weight=1)"].improvement.value == pytest.approx(2.5 / 4)
    assert found["PPO+REVD (weight=auto)"].improvement.value == 1
    assert found["A2C+REVD"].improvement.value == 0


@pytest.mark.parametrize(("seeds", "ahead"), [(2, False), (3, True)])
def test_with_two_seeds_no_method_is_ahead_or_behind(tmp_path, seeds, ahead):
    finals = {"PPO": 1.0, "PPO+REVD": 9.0, "PPO+RND": -9.0}
    runs = [run for method, final in finals.items() for run in runs_of(tmp_path, [final] * seeds, method=method)]
    _, better, worse = task_results(make_runs(tmp_path, *runs))
    assert (better.improvement.low, worse.improvement.high) == (1, 0)
    assert (better.is_ahead, better.is_behind) == (ahead, False)
    assert (worse.is_ahead, worse.is_behind) == (False, ahead)
