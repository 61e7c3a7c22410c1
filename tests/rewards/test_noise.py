"""Random numbers as a bonus: the same for the same seed, and blind to what was visited."""

import numpy as np
import torch

from revd import make_reward
from revd.testing import check_reward
from tests.support.rollouts import BOX, DISCRETE, Shape, make_rollouts

SHAPE = Shape(n_steps=40, n_envs=3)


def paid(seed: int, rollouts: int = 3, data: int = 0) -> list[torch.Tensor]:
    reward = make_reward("noise", BOX, DISCRETE, n_envs=3, seed=seed)
    return [reward.compute(rollout) for rollout in make_rollouts(data, rollouts, SHAPE)]


def test_it_keeps_the_contract_of_rewards() -> None:
    check_reward(lambda *spaces_and_envs: make_reward("noise", *spaces_and_envs[:2], n_envs=spaces_and_envs[2]))


def test_the_numbers_are_uniform_and_differ_from_rollout_to_rollout() -> None:
    bonuses = paid(seed=0, rollouts=20)
    numbers = np.sort(torch.stack(bonuses).numpy(), axis=None)
    assert np.abs(numbers - np.linspace(0, 1, len(numbers))).max() < 0.05
    assert len(np.unique(numbers)) > 0.99 * len(numbers)


def test_they_follow_the_seed_and_not_the_states() -> None:
    first, other_states, other_seed = paid(0), paid(0, data=9), paid(1)
    assert all(torch.equal(*pair) for pair in zip(first, other_states, strict=True))
    assert not any(torch.equal(*pair) for pair in zip(first, other_seed, strict=True))
