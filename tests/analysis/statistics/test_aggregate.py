import numpy as np
import pytest
from rliable import library, metrics
from scipy.stats import trim_mean

from revd.analysis.statistics.aggregate import (
    THRESHOLDS,
    Estimate,
    aggregate,
    interquartile_mean,
    performance_profile,
    probability_of_improvement,
)
from revd.analysis.statistics.scores import ScoreMatrices


@pytest.fixture
def generator():
    return np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(2, 1), (3, 1), (5, 6), (10, 4)])
def test_the_interquartile_mean_is_the_trimmed_mean(generator, shape):
    scores = generator.normal(size=shape)
    found = interquartile_mean(scores, resamples=50)
    assert found.value == pytest.approx(trim_mean(scores, 0.25, axis=None))
    assert found.value == pytest.approx(metrics.aggregate_iqm(scores))
    assert found.low <= found.value <= found.high


def test_a_profile_is_the_fraction_of_runs_above(generator):
    scores = generator.uniform(size=(4, 3))
    found = performance_profile(scores, resamples=50)
    np.testing.assert_allclose(found.fraction, library.score_distributions(scores, THRESHOLDS))
    np.testing.assert_allclose(found.fraction, [np.mean(scores > threshold) for threshold in THRESHOLDS])
    assert np.all((found.low <= found.fraction) & (found.fraction <= found.high))


@pytest.mark.parametrize("shapes", [((4, 3), (4, 3)), ((5, 2), (3, 2)), ((2, 1), (2, 1))])
def test_the_probability_of_improvement_counts_pairs(generator, shapes):
    better, worse = (generator.integers(0, 5, shape).astype(float) for shape in shapes)
    found = probability_of_improvement(better, worse, resamples=50)
    pairs = [
        (x > y) + 0.5 * (x == y) for task in range(shapes[0][1]) for x in better[:, task] for y in worse[:, task]
    ]  # fmt: skip
    assert found.value == pytest.approx(np.mean(pairs))
    assert found.value == pytest.approx(metrics.probability_of_improvement(better, worse))


def test_equal_scores_have_no_interval():
    assert interquartile_mean(np.ones((3, 2)), resamples=20) == Estimate(value=1, low=1, high=1)
    assert probability_of_improvement(np.ones((3, 2)), np.ones((2, 2)), resamples=20).value == 0.5


def test_resampling_stays_within_tasks():
    scores = np.array([[0.0, 100.0], [0.0, 100.0]])
    found = interquartile_mean(scores, resamples=50)
    assert (found.low, found.high) == (50, 50)


def test_equal_seeds_give_equal_intervals_and_leave_the_global_generator(generator):
    scores = generator.normal(size=(5, 3))
    np.random.seed(7)  # noqa: NPY002
    expected = np.random.random(3)  # noqa: NPY002
    np.random.seed(7)  # noqa: NPY002
    found = [interquartile_mean(scores, resamples=100, seed=seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(np.random.random(3), expected)  # noqa: NPY002
    assert found[0] == found[1]
    assert (found[0].low, found[0].high) != (found[2].low, found[2].high)
    assert found[0].value == found[2].value


def test_the_interval_is_that_of_a_naive_bootstrap(generator):
    scores = generator.normal(size=(8, 2))
    resampled = [
        trim_mean(np.stack([generator.choice(scores[:, task], 8) for task in range(2)]), 0.25, axis=None)
        for _ in range(2000)
    ]
    found = interquartile_mean(scores)
    np.testing.assert_allclose([found.low, found.high], np.percentile(resampled, [2.5, 97.5]), atol=0.06)


def test_an_aggregate_holds_the_methods_with_runs(generator):
    matrices = ScoreMatrices(tasks=("a", "b"), scores={"PPO": generator.uniform(size=(3, 2)), "A2C": np.ones((2, 2))})
    found = aggregate(matrices, (("A2C", "PPO"), ("PPO", "TRPO")))
    assert found.tasks == ("a", "b")
    assert found.seeds == {"PPO": 3, "A2C": 2}
    assert list(found.iqm) == list(found.profiles) == ["PPO", "A2C"]
    assert found.iqm["A2C"].value == 1
    assert found.improvements.keys() == {("A2C", "PPO")}
    assert found.improvements["A2C", "PPO"].value == 1
    assert aggregate(ScoreMatrices(tasks=(), scores={}), ()) is None
