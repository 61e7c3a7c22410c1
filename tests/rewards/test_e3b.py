import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from revd import Rollout
from revd.rewards import E3B
from tests.support import naive
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, embedded, make_rollout, make_rollouts, shapes

SIZE = 4


def make(n_envs: int = 2, **parameters: Any) -> E3B:
    return E3B(BOX, DISCRETE, n_envs, **{"embedding_size": SIZE, "scale_by_deviation": False} | parameters)


@settings(derandomize=True, max_examples=25, deadline=None)
@given(
    data=st.data(),
    ragged=st.booleans(),
    ridge=st.sampled_from([0.1, 3.0]),
    seed=st.integers(0, 10_000),
)
def test_equals_naive_loops(data: st.DataObject, ragged: bool, ridge: float, seed: int) -> None:
    shape = data.draw(shapes(min_steps=1, ragged=ragged))
    reward = make(shape.n_envs, ridge=ridge)
    covariances = [ridge * np.eye(SIZE) for _ in range(shape.n_envs)]
    for index, rollout in enumerate(make_rollouts(seed, 3, shape)):
        steps = embedded(reward, rollout)
        bonus = reward.compute(rollout)
        for env, length in enumerate(steps.lengths):
            phi, ended = steps.phi[:length, env], steps.dones[:length, env]
            expected, covariances[env] = naive.elliptical(phi, ended, covariances[env], ridge)
            np.testing.assert_allclose(bonus[:length, env], expected, rtol=1e-4, atol=1e-6)
        if index == 1:
            reward.end_episodes()
            covariances = [ridge * np.eye(SIZE) for _ in range(shape.n_envs)]


def directions(*indices: int, done: bool = False) -> Rollout:
    """One environment whose embeddings are unit vectors."""
    states = torch.eye(3)[list(indices)][:, None]
    dones = np.zeros((len(indices), 1), bool)
    dones[-1] = done
    return changed(make_rollout(0, Shape(len(indices), 1)), observations=states, next_observations=states, dones=dones)


def test_repeated_directions_are_paid_less_each_time_and_new_ones_in_full() -> None:
    reward = make(1, embedding_size=3, ridge=0.5)
    reward.embed = lambda rollout, observations: observations  # type: ignore[method-assign]
    first = reward.compute(directions(0, 0, 0, 1, 0))
    np.testing.assert_allclose(first[:, 0], [1 / 0.5, 1 / 1.5, 1 / 2.5, 1 / 0.5, 1 / 3.5], rtol=1e-6)
    # The episode goes on in the next rollout, and ends there.
    second = reward.compute(directions(0, 1, 2, done=True))
    np.testing.assert_allclose(second[:, 0], [1 / 4.5, 1 / 1.5, 1 / 0.5], rtol=1e-6)
    np.testing.assert_allclose(reward.compute(directions(0))[:, 0], [1 / 0.5], rtol=1e-6)
    reward.end_episodes()
    assert float(reward.compute(directions(0))) == pytest.approx(2)


def test_the_memory_is_restored_in_the_middle_of_an_episode() -> None:
    rollouts = [changed(rollout, dones=np.zeros((8, 2))) for rollout in make_rollouts(0, 3)]
    reward, resumed, fresh = make(), make(), make()
    for rollout in rollouts[:2]:
        reward.compute(rollout)
    resumed.load_state_dict(copy.deepcopy(reward.state_dict()))
    expected = reward.compute(rollouts[2])
    assert torch.equal(resumed.compute(rollouts[2]), expected)
    assert (fresh.compute(rollouts[2]) > expected).any()


def test_the_bonus_is_divided_by_its_deviation_by_default() -> None:
    scaled, plain = E3B(BOX, DISCRETE, 2, embedding_size=SIZE), make()
    rollout = make_rollout(0)
    expected = plain.compute(rollout)
    torch.testing.assert_close(scaled.compute(rollout), expected / expected.std(correction=0))
    assert scaled.metrics()["elliptical"] == pytest.approx(float(expected.mean()))


def test_only_the_inverse_model_trains_phi() -> None:
    reward = make(update_fraction=1.0)
    before = [parameter.detach().clone() for parameter in reward.encoder.parameters()]
    assert reward.update(make_rollout(0)).keys() == {"inverse_loss"}
    assert not all(torch.equal(a, b) for a, b in zip(before, reward.encoder.parameters(), strict=True))


def test_images_and_dicts_are_paid_and_trained_on() -> None:
    space = spaces.Dict({"image": spaces.Box(0, 255, (36, 36, 1), np.uint8), "state": BOX})
    rng = np.random.default_rng(0)
    observations = {
        "image": rng.integers(0, 256, (4, 1, 36, 36, 1), np.uint8),
        "state": rng.normal(size=(4, 1, 3)).astype(np.float32),
    }
    reward = E3B(space, DISCRETE, 1, embedding_size=SIZE)
    rollout = Rollout(
        observations=observations, actions=np.zeros((4, 1)), next_observations=observations, dones=np.zeros((4, 1))
    )
    assert (reward.compute(rollout) > 0).all()
    assert reward.inverse.shape == (1, 2 * SIZE, 2 * SIZE)
    assert set(reward.update(rollout)) == {"inverse_loss"}


@pytest.mark.parametrize("ridge", [0, -1, np.nan, 1e16])
def test_values_out_of_range(ridge: float) -> None:
    with pytest.raises(ValueError, match=r"^ridge must be a number from 1e-15 to 1e\+15, got "):
        make(ridge=ridge)


def test_the_deviation_is_that_of_all_rollouts() -> None:
    scaled, plain = E3B(BOX, DISCRETE, 2, embedding_size=SIZE), make()
    paid = []
    for rollout in make_rollouts(0, 3, Shape(8, 2)):
        paid.append(plain.compute(rollout))
        found = scaled.compute(rollout)
    torch.testing.assert_close(found, paid[-1] / torch.cat(paid).std(correction=0))
