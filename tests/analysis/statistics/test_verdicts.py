import numpy as np
import pytest

from revd.analysis.statistics.aggregate import Estimate
from revd.analysis.statistics.verdicts import Verdict, judge, verdicts
from tests.analysis.support import make_runs


def chance(value, low, high):
    return Estimate(value=value, low=low, high=high)


@pytest.mark.parametrize(
    ("found", "seeds", "word"),
    [
        (chance(1.0, 1.0, 1.0), 5, "clearly better"),
        (chance(0.9, 0.51, 1.0), 5, "clearly better"),
        (chance(0.89, 0.56, 1.0), 5, "probably better"),
        (chance(1.0, 1.0, 1.0), 4, "probably better"),
        (chance(0.89, 0.56, 1.0), 3, "probably better"),
        (chance(1.0, 1.0, 1.0), 2, "too few seeds"),
        (None, 1, "too few seeds"),
        (chance(0.9, 0.5, 1.0), 20, "not told apart"),
        (chance(0.5, 0.5, 0.5), 20, "not told apart"),
        (chance(0.1, 0.0, 0.5), 20, "not told apart"),
        (chance(0.11, 0.0, 0.49), 20, "probably worse"),
        (chance(0.1, 0.0, 0.49), 5, "clearly worse"),
        (chance(0.0, 0.0, 0.0), 4, "probably worse"),
    ],
)
def test_the_words(found, seeds, word):
    assert judge(found, seeds=seeds) == word
    assert Verdict(method="A", base="B", seeds=(seeds, 20), chance=found).judgement == word
    assert Verdict(method="A", base="B", seeds=(20, seeds), chance=found).judgement == word


def runs_of(returns, **settings):
    """Runs of hundred-step episodes, from seed 1 on."""
    return [{"seed": seed, "returns": run, "spacing": 10, **settings} for seed, run in enumerate(returns, start=1)]


def test_each_method_is_compared_with_its_algorithm_without_a_bonus(tmp_path):
    runs = make_runs(
        tmp_path,
        *runs_of([[0.0] * 100, [1.0] * 100, [2.0] * 100]),
        *runs_of([[1.0] * 100, [3.0] * 100, [4.0] * 100], method="PPO+REVD"),
        *runs_of([[9.0] * 100] * 3, method="A2C"),
    )
    (found,) = verdicts(runs)
    assert (found.method, found.base, found.seeds, found.threshold) == ("PPO+REVD", "PPO", (3, 3), None)
    # Of nine pairs 1 > 0, 3 > 0, 1, 2 and 4 > 0, 1, 2 are wins, 1 = 1 is half a win.
    assert found.chance.value == pytest.approx(7.5 / 9)


def test_fewer_steps_are_better_and_never_is_the_latest(tmp_path):
    late, early, never = [0.0] * 50 + [9.0] * 50, [9.0] * 100, [0.0] * 100
    runs = make_runs(
        tmp_path,
        *runs_of([late, never, never], steps=1000),
        *runs_of([early, late, never], method="PPO+REVD", steps=1000),
    )
    found, final = verdicts(runs, threshold=5, window=10)
    assert (found.threshold, found.reached, final.threshold) == (5, (2, 1), None)
    # The early run wins three times, the late one ties with the late one and wins twice, never ties twice and loses.
    assert found.chance.value == pytest.approx((3 + 2.5 + 1) / 9)
    assert np.isfinite([found.chance.low, found.chance.high]).all()


def test_nobody_reaches_it(tmp_path):
    never = [[0.0] * 100] * 3
    found, _ = verdicts(make_runs(tmp_path, *runs_of(never), *runs_of(never, method="PPO+REVD")), threshold=5)
    assert (found.reached, found.chance, found.judgement) == ((0, 0), chance(0.5, 0.5, 0.5), "not told apart")


def test_one_seed_has_no_chance_and_runs_without_a_return_do_not_count(tmp_path):
    plain = runs_of([[0.0] * 100] * 2)
    (found,) = verdicts(make_runs(tmp_path / "a", *plain, *runs_of([[1.0] * 100], method="PPO+REVD")))
    assert (found.seeds, found.chance, found.judgement) == ((1, 2), None, "too few seeds")
    running = runs_of([[1.0] * 100], method="PPO+REVD", state="running")
    assert verdicts(make_runs(tmp_path / "b", *plain, *running)) == []
