from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from revd.rewards import RISE
from tests.support import naive
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, embedded, make_rollout, make_rollouts, shapes

SIZE = 4


def make(n_envs: int, **parameters: Any) -> RISE:
    return RISE(BOX, DISCRETE, n_envs, **{"embedding_size": SIZE, "k": 3} | parameters)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(
    data=st.data(),
    k=st.integers(1, 4),
    boundary=st.sampled_from(["rollout", "episode"]),
    ragged=st.booleans(),
    alpha=st.sampled_from([0.1, 0.5, 0.9]),
    merge=st.booleans(),
    spare=st.sampled_from([1, 10_000]),
    seed=st.integers(0, 10_000),
)
def test_equals_naive_loops(
    data: st.DataObject, k: int, boundary: str, ragged: bool, alpha: float, merge: bool, spare: int, seed: int
) -> None:
    shape = data.draw(shapes(min_steps=k + 1, ragged=ragged))
    parameters = {"boundary": boundary, "alpha": alpha, "memory_size": k + spare, "merge_duplicates": merge}
    reward = make(shape.n_envs, k=k, **parameters)
    segments = naive.NaiveSegments(shape.n_envs, SIZE, k=k, boundary=boundary, memory_size=k + spare)
    expected = naive.NaiveRISE(segments, k=k, alpha=alpha, merge=merge)
    for rollout in make_rollouts(seed, 3, shape):
        bonus = expected.compute(embedded(reward, rollout))
        np.testing.assert_allclose(reward.compute(rollout), bonus, rtol=1e-4, atol=1e-4)
        if data.draw(st.booleans()):
            reward.end_episodes()
            segments.end_episodes()


def test_a_hand_computed_example() -> None:
    reward = make(1, k=2, alpha=0.25, embedding_size=3, merge_duplicates=False)
    reward.embed = lambda rollout, observations: observations  # type: ignore[method-assign]
    states = np.zeros((4, 1, 3), np.float32)
    states[:, 0, 0] = [0, 0, 3, 7]
    bonus = reward.compute(changed(make_rollout(0, Shape(4, 1)), observations=states))
    np.testing.assert_allclose(bonus[:, 0], np.array([3, 3, 3, 7]) ** 0.75, rtol=1e-6)
    assert reward.metrics()["distance"] == pytest.approx(4)
    assert reward.metrics()["unpaid"] == 0


def test_the_bonus_grows_with_the_distance() -> None:
    reward = make(1, k=1, embedding_size=3)
    reward.embed = lambda rollout, observations: observations  # type: ignore[method-assign]
    states = torch.zeros(8, 1, 3)
    states[:, 0, 0] = 2.0 ** torch.arange(8)
    bonus = reward.compute(changed(make_rollout(0, Shape(8, 1)), observations=states))[:, 0]
    assert (bonus[2:] > bonus[1:-1]).all()


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.5, 2.0])
def test_orders_outside_the_unit_interval_are_errors(alpha: float) -> None:
    with pytest.raises(ValueError, match=r"alpha must be inside \(0, 1\), got"):
        make(1, alpha=alpha)
