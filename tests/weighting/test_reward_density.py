"""How often the reward changes, against a loop over single steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revd.weighting.reward_density import RewardDensity

N_ENVS = 3


def rollouts(seed: int, share: float, n_steps: int, number: int = 6) -> list[tuple[np.ndarray, ...]]:
    """Rewards of which a share pays, at random, in columns of different lengths."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(number):
        valid = np.arange(n_steps)[:, None] < rng.integers(0, n_steps + 1, size=N_ENVS)
        paid = rng.random(valid.shape) < share
        rewards = np.where(paid, rng.normal(size=valid.shape), 0).astype(np.float32)
        found.append((rewards, rng.random(valid.shape) < 0.2, valid))
    return found


@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.1, 0.5, 1.0]), n_steps=st.sampled_from([1, 5]))
def test_against_a_loop_over_steps(seed: int, share: float, n_steps: int) -> None:
    density, last, shares = RewardDensity(N_ENVS), [None] * N_ENVS, []
    for rewards, dones, valid in rollouts(seed, share, n_steps):
        changes = []
        for t in range(n_steps):
            for env in range(N_ENVS):
                if valid[t, env]:
                    changes += [] if last[env] is None else [rewards[t, env] != last[env]]
                    last[env] = None if dones[t, env] else rewards[t, env]
        shares += [np.mean(changes)] if changes else []
        recency = 0.9 ** np.arange(len(shares))[::-1]
        expected = np.average(shares, weights=recency) if shares else 0
        assert density.observe(rewards, dones, valid) == pytest.approx(expected)
        assert density.is_dense == (expected > 0.5)


@pytest.mark.parametrize(
    ("reward_of", "dense"),
    [
        (lambda rng, shape: np.full(shape, -1.0), False),
        (lambda rng, shape: np.zeros(shape), False),
        (lambda rng, shape: (rng.random(shape) < 0.1).astype(float), False),
        (lambda rng, shape: rng.normal(size=shape) * (rng.random(shape) < 0.1), False),
        (lambda rng, shape: rng.normal(size=shape), True),
        (lambda rng, shape: -0.1 * rng.normal(size=shape) ** 2, True),
    ],
    ids=["every step costs 1", "silent", "a goal", "nine rewards of ten are hidden", "speed", "actions cost"],
)
def test_only_a_reward_that_changes_on_most_steps_is_dense(reward_of: Callable[..., np.ndarray], dense: bool) -> None:
    rng, density = np.random.default_rng(0), RewardDensity(4)
    assert not density.is_dense, "nothing was seen"
    for _ in range(3):
        density.observe(reward_of(rng, (50, 4)), np.zeros((50, 4), bool), np.ones((50, 4), bool))
        assert density.is_dense == dense


def test_a_goal_that_ends_short_episodes_is_not_dense() -> None:
    density, ends = RewardDensity(1), np.array([[0], [0], [1]] * 4, bool)
    assert density.observe(ends.astype(float), ends, np.ones_like(ends)) == 0.5
    assert not density.is_dense


def test_no_pair_spans_a_reset_from_outside() -> None:
    density, none = RewardDensity(1), np.zeros((2, 1), bool)
    density.observe(np.zeros((2, 1)), none, ~none)
    density.end_episodes()
    assert density.observe(np.ones((2, 1)), none, ~none) == 0


def test_the_state_is_in_buffers() -> None:
    whole, later = RewardDensity(N_ENVS), RewardDensity(N_ENVS)
    before, after = rollouts(5, 0.5, 4)[:3], rollouts(5, 0.5, 4)[3:]
    for rollout in before:
        whole.observe(*rollout)
    later.load_state_dict(whole.state_dict())
    assert [whole.observe(*rollout) for rollout in after] == [later.observe(*rollout) for rollout in after]
