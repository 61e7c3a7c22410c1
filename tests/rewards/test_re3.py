from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from revd import RE3, Rollout
from tests.support import naive
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, embedded, make_rollout, make_rollouts, shapes

SIZE = 4


def make(n_envs: int, **parameters: Any) -> RE3:
    return RE3(BOX, DISCRETE, n_envs, **{"embedding_size": SIZE, "k": 3} | parameters)


def assert_equals_naive(reward: RE3, rollouts: list[Rollout], *, end_after: int | None = None) -> list[np.ndarray]:
    config = reward.config
    segments = naive.NaiveSegments(
        reward.n_envs, SIZE, k=config.k, boundary=config.boundary, memory_size=config.memory_size
    )
    expected = naive.NaiveRE3(segments, k=config.k, log=config.log, merge=config.merge_duplicates)
    bonuses = []
    for i, rollout in enumerate(rollouts):
        bonus = expected.compute(embedded(reward, rollout))
        np.testing.assert_allclose(reward.compute(rollout), bonus, rtol=1e-4, atol=1e-6)
        bonuses.append(bonus)
        if i == end_after:
            reward.end_episodes()
            segments.end_episodes()
    return bonuses


@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    data=st.data(),
    k=st.integers(1, 4),
    boundary=st.sampled_from(["rollout", "episode"]),
    ragged=st.booleans(),
    log=st.booleans(),
    merge_duplicates=st.booleans(),
    spare=st.sampled_from([1, 4, 10_000]),
    seed=st.integers(0, 10_000),
)
def test_equals_naive_loops(
    data: st.DataObject, k: int, ragged: bool, spare: int, seed: int, **parameters: Any
) -> None:
    shape = data.draw(shapes(min_steps=k + 1, ragged=ragged))
    reward = make(shape.n_envs, k=k, memory_size=k + spare, **parameters)
    end_after = data.draw(st.sampled_from([None, 0, 1]))
    assert_equals_naive(reward, make_rollouts(seed, 3, shape), end_after=end_after)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("log", [True, False])
def test_a_hand_computed_example(log: bool, merge: bool) -> None:
    reward = make(1, k=2, log=log, embedding_size=3, merge_duplicates=merge)
    reward.embed = lambda rollout, observations: observations  # type: ignore[method-assign]
    states = np.zeros((4, 1, 3), np.float32)
    states[:, 0, 0] = [0, 0, 3, 7]
    bonus = reward.compute(changed(make_rollout(0, Shape(4, 1)), observations=states, next_observations=states))
    # The two states at 0 are each other's neighbours, or one neighbour for the others, and share its pay.
    distances, copies = (np.array([7, 7, 4, 7]), [2, 2, 1, 1]) if merge else (np.array([3, 3, 3, 7]), [1, 1, 1, 1])
    np.testing.assert_allclose(bonus[:, 0], (np.log(distances + 1) if log else distances) / np.sqrt(copies), rtol=1e-6)


def test_the_first_rollout_is_paid() -> None:
    (bonus,) = assert_equals_naive(make(2), [make_rollout(0)])
    assert (bonus > 0).all()


def test_states_of_earlier_rollouts_are_neighbours_within_an_episode() -> None:
    rollouts = [changed(rollout, dones=np.zeros((8, 2), bool)) for rollout in make_rollouts(0, 2)]
    reward = make(2, boundary="episode")
    _, second = assert_equals_naive(reward, rollouts)
    alone = make(2, boundary="episode").compute(rollouts[1])
    assert (alone.numpy() >= second - 1e-6).all()
    assert not np.allclose(alone, second)
    assert reward.memory.running_lengths.tolist() == [16, 16]
    assert reward.memory.previous_lengths.tolist() == [0, 0]


def test_an_episode_without_enough_states_is_paid_nothing() -> None:
    reward = make(1, boundary="episode")
    rollout = changed(make_rollout(0, Shape(7, 1)), dones=np.array([[0, 0, 1, 0, 0, 0, 1]], bool).T)
    (bonus,) = assert_equals_naive(reward, [rollout])
    assert not bonus[:3].any()
    assert bonus[3:].all()
    assert reward.metrics()["unpaid"] == pytest.approx(3 / 7)


def test_metrics() -> None:
    reward = make(2, log=False)
    bonus = reward.compute(make_rollout(0))
    expected = {"distance": float(bonus.mean()), "unpaid": 0.0, "bonus_mean": float(bonus.mean())}
    assert reward.metrics() == pytest.approx(expected)
    reward = make(2, boundary="episode", log=False)
    ragged = changed(make_rollout(0), lengths=[8, 2], dones=torch.zeros(8, 2))
    bonus = reward.compute(ragged)
    expected = {"distance": float(bonus[:, 0].mean()), "unpaid": 0.2, "bonus_mean": float(bonus[:, 0].sum()) / 10}
    assert reward.metrics() == pytest.approx(expected)
