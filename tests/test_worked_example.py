import numpy as np
import pytest

from revd.worked_example import ALPHA, EPS, LENGTH, K, make_example, score_episode
from tests.support import naive

RADIUS = 0.3


@pytest.fixture
def example():
    return make_example(radius=RADIUS, seed=0)


def test_the_constants_are_the_papers():
    assert (K, EPS, ALPHA) == (3, 1e-4, 0.5)


@pytest.mark.parametrize("seed", range(20))
def test_spreading_wins_with_spread_and_lingering_without(seed):
    spreading, lingering = make_example(radius=RADIUS, seed=seed).scored
    assert spreading.mean_bonus > lingering.mean_bonus
    assert spreading.mean_unscaled < lingering.mean_unscaled
    assert spreading.spread > lingering.spread
    assert spreading.divergence < lingering.divergence


def test_a_very_small_region_defeats_spread():
    """L is a mean over the episode: a few states on the way keep it up while the bonus of the crowd grows."""
    spreading, lingering = make_example(radius=0.01, seed=0).scored
    assert lingering.mean_bonus > spreading.mean_bonus


def test_scores_equal_naive_loops(example):
    for episode in example.scored:
        spread = np.tanh(np.mean([naive.mu(1, t, episode.states) for t in range(LENGTH)]))
        ratios = [
            (naive.nu(K, state, example.reference) / (naive.mu(K, t, episode.states) + EPS)) ** (1 - ALPHA)
            for t, state in enumerate(episode.states)
        ]
        np.testing.assert_allclose(episode.unscaled, ratios, rtol=1e-5)
        np.testing.assert_allclose(episode.bonus, spread * np.array(ratios), rtol=1e-5)
        assert episode.spread == pytest.approx(spread, rel=1e-5)
        assert episode.mean_bonus == pytest.approx(spread * np.mean(ratios), rel=1e-5)
        divergence = naive.renyi_divergence(episode.states, example.reference, k=K, alpha=ALPHA)
        assert episode.divergence == pytest.approx(divergence, rel=1e-4)


def test_episodes_are_equally_long_and_start_together(example):
    episodes = [example.reference, *(episode.states for episode in example.scored)]
    assert {states.shape for states in episodes} == {(LENGTH, 2)}
    assert all(np.linalg.norm(states[0]) < 1 for states in episodes)


def test_the_lingering_agent_stays_where_the_radius_says():
    states = make_example(radius=0.05, seed=3).lingering.states
    settled = states[4:]
    assert np.linalg.norm(settled - settled.mean(axis=0), axis=1).max() < 5 * 0.05


def test_seeds_decide():
    first, again, other = (make_example(radius=RADIUS, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.lingering.bonus, again.lingering.bonus)
    assert not np.array_equal(first.reference, other.reference)


def test_exact_duplicates_are_paid_a_finite_bonus(example):
    states = np.repeat([[9.0, 9.0]], LENGTH, axis=0)
    standing = score_episode("standing", states, example.reference)
    assert standing.spread == 0
    assert standing.mean_bonus == 0
    assert np.isfinite(standing.unscaled).all()
    assert standing.mean_unscaled > 100


@pytest.mark.parametrize(
    ("radius", "seed", "message"),
    [
        (-0.1, 0, "radius must be a number of at least 0, got -0.1"),
        (float("nan"), 0, "radius must be"),
        (0.3, -1, "seed must be at least 0, got -1"),
    ],
)
def test_wrong_arguments(radius, seed, message):
    with pytest.raises(ValueError, match=message):
        make_example(radius=radius, seed=seed)
