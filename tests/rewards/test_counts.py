import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from revd import Rollout
from revd.rewards import Counts
from revd.testing import check_reward
from tests.support import naive
from tests.support.rollouts import BOX, DISCRETE, Shape, make_rollouts

CHAIN = spaces.Discrete(6)
PIXELS = spaces.Box(0, 255, (5, 5, 3), np.uint8)


def chain(states: Any, dones: Any = None, lengths: list[int] | None = None) -> Rollout:
    """A rollout over numbered states, (n_steps, n_envs)."""
    states = np.asarray(states)
    dones = np.zeros(states.shape) if dones is None else dones
    return Rollout(observations=states, actions=np.zeros(states.shape), dones=dones, lengths=lengths)


@pytest.mark.parametrize("scope", ["lifelong", "episode", "both"])
@settings(derandomize=True, max_examples=40, deadline=None)
@given(
    n_steps=st.integers(1, 12),
    n_envs=st.integers(1, 3),
    done_rate=st.sampled_from([0.0, 0.3, 1.0]),
    ragged=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_equals_naive_loops(scope: str, n_steps: int, n_envs: int, done_rate: float, ragged: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    reward, expected = Counts(CHAIN, DISCRETE, n_envs, scope=scope), naive.NaiveCounts(n_envs, scope)
    for index in range(4):
        states = rng.integers(0, 6, (n_steps, n_envs))
        dones = rng.random(states.shape) < done_rate
        lengths = rng.integers(0, n_steps + 1, n_envs).tolist() if ragged else [n_steps] * n_envs
        bonus = reward.compute(chain(states, dones, lengths if ragged else None))
        np.testing.assert_allclose(bonus, expected.compute(states.tolist(), dones, lengths), rtol=1e-6)
        if index == 1:
            reward.end_episodes()
            expected.end_episodes()


def test_counts_are_exact_on_a_chain() -> None:
    """Up the chain and back again, over two rollouts: n counts a visit itself and the earlier ones."""
    reward = Counts(CHAIN, DISCRETE, 1)
    states = np.array([0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0])[:, None]
    n = np.array([1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2])
    for earlier in (0, np.array([2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2])):
        np.testing.assert_allclose(reward.compute(chain(states))[:, 0], 1 / np.sqrt(n + earlier), rtol=1e-6)
    assert reward.metrics()["states"] == 6
    assert reward.metrics()["visits"] == pytest.approx((n + earlier).mean())


def test_environments_share_lifelong_counts_in_order() -> None:
    bonus = Counts(CHAIN, DISCRETE, 3).compute(chain([[2, 2, 1], [2, 1, 1]]))
    np.testing.assert_allclose(bonus.numpy() ** -2, [[1, 2, 1], [3, 2, 3]], rtol=1e-5)


@pytest.mark.parametrize(
    ("space", "mode", "exact"),
    [
        (CHAIN, "auto", True),
        (PIXELS, "auto", True),
        (spaces.MultiBinary(3), "auto", True),
        (spaces.Dict({"image": PIXELS, "goal": CHAIN}), "auto", True),
        (spaces.Dict({"image": PIXELS, "goal": BOX}), "auto", False),
        (BOX, "auto", False),
        (spaces.Box(0, 255, (84, 84, 4), np.uint8), "auto", False),
        (CHAIN, "hash", False),
        (BOX, "exact", True),
    ],
)
def test_what_is_counted_exactly(space: spaces.Space[Any], mode: str, exact: bool) -> None:
    assert Counts(space, DISCRETE, 1, mode=mode, embedding_size=4).exact is exact


def test_small_images_are_counted_exactly() -> None:
    images = np.zeros((4, 1, 5, 5, 3), np.uint8)
    images[1, 0, 4, 4, 2] = images[3, 0, 4, 4, 2] = 1  # one unit of one pixel
    rollout = Rollout(observations=images, actions=np.zeros((4, 1)), dones=np.zeros((4, 1)))
    reward = Counts(PIXELS, DISCRETE, 1)
    np.testing.assert_allclose(reward.compute(rollout)[:, 0] ** -2, [1, 1, 2, 2], rtol=1e-5)


def test_states_with_equal_hashes_are_one_state() -> None:
    reward, expected = Counts(BOX, DISCRETE, 2, hash_bits=3, embedding_size=4), naive.NaiveCounts(2)
    for rollout in make_rollouts(0, 3, Shape(n_steps=20)):
        embeddings = reward.encoder(rollout.observations.flatten(0, 1)).reshape(20, 2, 4)  # type: ignore[union-attr]
        signs = (embeddings @ reward.projection > 0).tolist()
        states = [[tuple(state) for state in step] for step in signs]
        np.testing.assert_allclose(
            reward.compute(rollout), expected.compute(states, rollout.dones.numpy(), [20, 20]), rtol=1e-6
        )
    assert 1 < len(reward.lifelong.keys) <= 8  # type: ignore[union-attr]


def test_images_for_the_cnn_are_hashed() -> None:
    space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    images = np.random.default_rng(0).integers(0, 256, (3, 1, 36, 36, 1), np.uint8)
    images[2] = images[0]
    rollout = Rollout(observations=images, actions=np.zeros((3, 1)), dones=np.zeros((3, 1)))
    bonus = Counts(space, DISCRETE, 1, hash_bits=63).compute(rollout)
    np.testing.assert_allclose(bonus[:, 0] ** -2, [1, 1, 2], rtol=1e-5)


def test_counts_resume_exactly_in_the_middle_of_an_episode() -> None:
    rng = np.random.default_rng(0)
    rollouts = [chain(rng.integers(0, 6, (9, 2)), rng.random((9, 2)) < 0.1) for _ in range(4)]
    reward, resumed = (Counts(CHAIN, DISCRETE, 2, scope="both") for _ in range(2))
    for rollout in rollouts[:2]:
        reward.compute(rollout)
    resumed.load_state_dict(copy.deepcopy(reward.state_dict()))
    for rollout in rollouts[2:]:
        assert torch.equal(reward.compute(rollout), resumed.compute(rollout))


def test_memory_is_bounded() -> None:
    reward = Counts(CHAIN, DISCRETE, 1, scope="both", memory_size=3)
    for state in range(6):
        reward.compute(chain([[state]]))
    assert len(reward.lifelong.keys) == len(reward.episodic.table.keys) == 3  # type: ignore[union-attr]
    # State 0 was forgotten and is new again; state 4 is remembered.
    np.testing.assert_allclose(reward.compute(chain([[4], [0]]))[:, 0], [0.5, 1.0], rtol=1e-6)


@pytest.mark.parametrize("scope", ["lifelong", "both"])
@pytest.mark.parametrize("space", [PIXELS, spaces.Dict({"a": CHAIN, "b": spaces.MultiDiscrete([3, 2])})])
def test_every_contract_is_kept_by_exact_counts(space: spaces.Space[Any], scope: str) -> None:
    check_reward(
        lambda *arguments: Counts(*arguments, scope=scope, embedding_size=4),
        observation_space=space,
        parameters={
            "embedding_size": {"embedding_size": 8, "mode": "hash", "hash_bits": 4},
            "hash_bits": {"hash_bits": 4, "mode": "hash"},
            "mode": {"mode": "hash", "hash_bits": 4},
        },
    )


def test_hashes_are_the_signs_of_gaussian_projections() -> None:
    projection = Counts(BOX, DISCRETE, 2, embedding_size=64, hash_bits=60).projection
    assert abs(float(projection.mean())) < 0.1
    assert float(projection.std()) == pytest.approx(1, abs=0.1)
    assert float(projection.square().square().mean()) == pytest.approx(3, abs=0.5)
