"""Noise that no action changes holds RND's attention, while ICM and Disagreement lose interest."""

from typing import Any

import pytest

from revd import make_reward
from tests.support import noisy_tv


def paid_at_the_tv(name: str, **parameters: Any) -> tuple[float, float]:
    """The mean bonus there in the first rollout and after forty."""
    common = {"embedding_size": 16, "batch_size": 64, "update_fraction": 1.0}
    reward = make_reward(name, noisy_tv.SPACE, noisy_tv.ACTIONS, n_envs=4, **common, **parameters)
    paid = []
    for seed in range(40):
        rollout = noisy_tv.walk(seed)
        paid.append(float(reward.compute(rollout).numpy()[noisy_tv.at_tv(rollout)].mean()))
        reward.update(rollout)
    return paid[0], paid[-1]


def test_rnd_keeps_paying_for_it() -> None:
    first, last = paid_at_the_tv("rnd", learning_rate=1e-3, scale_by_returns=False, warmup=1)
    assert last > 0.1 * first


@pytest.mark.parametrize("name", ["icm", "disagreement"])
def test_a_model_of_ones_own_actions_stops_paying_for_it(name: str) -> None:
    first, last = paid_at_the_tv(name, learning_rate=3e-3)
    assert last < 0.06 * first
