"""Noise that no action changes: RND pays for it most of all, ICM less, Disagreement not at all.

What matters is the bonus there compared with the bonus elsewhere, since a weight, or weight="auto", rescales the bonus.
"""

from typing import Any

import numpy as np
import pytest

from revd import make_reward
from tests.support import noisy_tv

SEEDS = range(3)


def interest(name: str, **parameters: Any) -> list[float]:
    """The mean bonus at the TV over that elsewhere, after forty rollouts; one for each seed."""
    found = []
    for seed in SEEDS:
        common = {"embedding_size": 16, "batch_size": 64, "update_fraction": 1.0, "seed": seed}
        reward = make_reward(name, noisy_tv.SPACE, noisy_tv.ACTIONS, n_envs=4, **common, **parameters)
        for number in range(40):
            rollout = noisy_tv.walk(1_000 * seed + number)
            bonus, at_tv = np.asarray(reward.compute(rollout)), noisy_tv.at_tv(rollout)
            reward.update(rollout)
        found.append(float(bonus[at_tv].mean() / bonus[~at_tv].mean()))
    return found


def test_rnd_is_drawn_to_it() -> None:
    assert min(interest("rnd", learning_rate=1e-3, scale_by_returns=False, warmup=1)) > 200


def test_icm_is_drawn_to_it_less() -> None:
    assert max(interest("icm", learning_rate=3e-3)) < 65


def test_without_its_inverse_model_icm_would_be_drawn_to_it_more() -> None:
    assert min(interest("icm", learning_rate=3e-3, forward_weight=1.0)) > 65


def test_disagreement_is_not_drawn_to_it() -> None:
    assert max(interest("disagreement", learning_rate=3e-3)) < 2


@pytest.mark.parametrize("name", ["icm", "disagreement"])
def test_what_they_pay_for_it_falls(name: str) -> None:
    reward = make_reward(name, noisy_tv.SPACE, noisy_tv.ACTIONS, n_envs=4, embedding_size=16, learning_rate=3e-3)
    paid = []
    for seed in range(40):
        rollout = noisy_tv.walk(seed)
        paid.append(float(reward.compute(rollout).numpy()[noisy_tv.at_tv(rollout)].mean()))
        reward.update(rollout)
    assert paid[-1] < 0.5 * paid[0]
