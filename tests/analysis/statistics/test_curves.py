import numpy as np
import pytest

from revd.analysis.statistics.curves import (
    SeedRange,
    curve,
    range_curve,
    recent_mean,
    return_range,
    seed_range,
    step_grid,
    steps_to_reach,
)
from revd.episodes import Episodes
from tests.analysis.support import episodes


def naive_recent_mean(given, step, window):
    ended = [value for at, value in zip(given.steps, given.returns, strict=True) if at <= step]
    return np.mean(ended[-window:]) if ended else np.nan


@pytest.mark.parametrize("window", [1, 3, 100])
def test_recent_mean_equals_a_naive_loop(window):
    generator = np.random.default_rng(0)
    given = Episodes(steps=np.sort(generator.integers(50, 300, 60)).astype(float), returns=generator.normal(size=60))
    grid = np.arange(0.0, 350.0, 7)
    expected = [naive_recent_mean(given, step, window) for step in grid]
    np.testing.assert_allclose(recent_mean(given, grid, window=window), expected)


def test_no_episode_has_no_mean():
    assert np.isnan(recent_mean(episodes(), np.array([5.0]))).all()


def test_steps_to_reach_is_the_first_full_window():
    given = episodes(100, -200, -100, -100, -200, 0, 0)
    assert steps_to_reach(given, -50, window=2) == 20, "reaching it exactly counts"
    assert steps_to_reach(given, 100, window=1) == 10
    assert steps_to_reach(given, -0.0, window=2) == 70
    assert steps_to_reach(given, 50, window=2) is None


def test_a_lucky_first_episode_is_no_success():
    assert steps_to_reach(episodes(0), -150, window=2) is None
    assert steps_to_reach(episodes(0, -400, -200), -150, window=3) is None
    assert steps_to_reach(episodes(0, -200, -200), -150, window=3) == 30


def test_the_range_over_seeds():
    assert seed_range([3.0, 1.0, 8.0]) == SeedRange(mean=4.0, low=1.0, high=8.0)
    with pytest.raises(ValueError, match="at least one number"):
        seed_range([])


def test_a_band_is_mean_and_range_on_a_common_grid():
    curve = range_curve([episodes(0, 2, 4), episodes(10, 10, 10)], total_steps=40, points=4, window=1)
    np.testing.assert_array_equal(curve.steps, [10, 20, 30, 40])
    np.testing.assert_array_equal(curve.curves, [[0, 2, 4, 4], [10, 10, 10, 10]])
    np.testing.assert_array_equal(curve.mean, [5, 6, 7, 7])
    np.testing.assert_array_equal(curve.low, [0, 2, 4, 4])
    np.testing.assert_array_equal(curve.high, [10, 10, 10, 10])


def test_a_band_starts_where_all_seeds_have_episodes():
    late = Episodes(steps=np.array([25.0]), returns=np.array([1.0]))
    np.testing.assert_array_equal(range_curve([episodes(0), late], total_steps=40, points=4).steps, [30, 40])


def test_a_grid_of_steps_ends_at_the_last():
    np.testing.assert_array_equal(step_grid(40, points=4), [10, 20, 30, 40])


def test_a_curve_is_mean_and_sample_deviation_as_far_as_all_seeds_went():
    found = curve([episodes(0, 2, 4), episodes(10, 10, 10)], grid=step_grid(40, points=4), until=30, window=1)
    np.testing.assert_array_equal(found.steps, [10, 20, 30])
    np.testing.assert_array_equal(found.mean, [5, 6, 7])
    np.testing.assert_allclose(found.deviation, [np.sqrt(50), np.sqrt(32), np.sqrt(18)])
    assert found.seeds == 2


def test_the_curve_of_one_seed_has_no_deviation():
    found = curve([episodes(0, 2)], grid=np.array([10.0, 20.0]), until=20, window=2)
    np.testing.assert_array_equal(found.mean, [0, 1])
    assert np.isnan(found.deviation).all()


def test_a_band_is_cut_off_at_its_limits():
    found = curve(
        [episodes(0, 2, 4), episodes(10, 10, 10)], grid=step_grid(30, points=3), until=30, window=1, limits=(-1.0, 10.0)
    )
    np.testing.assert_allclose(found.low, [-1, 6 - np.sqrt(32), 7 - np.sqrt(18)])
    np.testing.assert_array_equal(found.high, [10, 10, 10])
    np.testing.assert_allclose(found.deviation[0], np.sqrt(50), err_msg="the deviation itself is unchanged")


def test_the_range_of_returns_is_over_all_episodes():
    assert return_range([episodes(3, -2), episodes(), episodes(7)]) == (-2, 7)
    assert return_range([episodes()]) == (-np.inf, np.inf)


def test_a_curve_may_have_no_point():
    assert len(curve([episodes(1), episodes(2)], grid=step_grid(40, points=4), until=5).steps) == 0


def test_wrong_arguments():
    with pytest.raises(ValueError, match="at least one run"):
        range_curve([], total_steps=10)
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        steps_to_reach(episodes(1), 0, window=0)
