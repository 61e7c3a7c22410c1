"""Noise that no action changes: RND pays more for it than for a new place, ICM does not.

Disagreement does not if it learns its features as ICM does; with random ones, or with an inverse model alone, it does.
What matters is the bonus there compared with the bonus elsewhere, since a weight, or weight="auto", rescales the bonus.
"""

from functools import cache
from typing import Any

import numpy as np
import pytest

from revd import make_reward
from tests.support import noisy_tv
from tests.support.noisy_tv import TV, UNSEEN

SEEDS = range(3)
ROLLOUTS = 160
SETTINGS: dict[str, dict[str, Any]] = {
    "rnd": {"learning_rate": 1e-3, "scale_by_returns": False, "warmup": 1},
    "icm": {"learning_rate": 3e-3},
    "icm without its inverse model": {"learning_rate": 3e-3, "forward_weight": 1.0},
    "disagreement": {"learning_rate": 3e-3},
    "disagreement inverse": {"learning_rate": 3e-3, "features": "inverse"},
    "disagreement dynamics": {"learning_rate": 3e-3, "features": "dynamics"},
}
#: The steps that are compared: from where to where; None is a quiet known place.
STEPS = {
    "known": (None, None),
    "noise": (None, TV),
    "new": (None, UNSEEN),
    "from noise": (TV, None),
    "from new": (UNSEEN, None),
}


@cache
def bonuses(method: str, seed: int, *, everywhere: bool = False) -> dict[str, float]:
    """The mean bonus of each kind of step, after long training without the new place.

    Disagreement pays for a state and an action, whatever comes of them. So for it a door leads to the new place: an
    action that was never taken.
    """
    common = {"embedding_size": 16, "batch_size": 64, "update_fraction": 1.0, "seed": seed}
    settings = {**common, **SETTINGS[method]}
    door = method.startswith("disagreement")
    actions = noisy_tv.ACTIONS_WITH_DOOR if door else noisy_tv.ACTIONS
    reward = make_reward(method.split()[0], noisy_tv.SPACE, actions, n_envs=4, **settings)
    for number in range(ROLLOUTS):
        rollout = noisy_tv.walk(1_000 * seed + number, everywhere=everywhere)
        reward.compute(rollout)
        reward.update(rollout)
    rollout = noisy_tv.walk(99_999 + seed, 512, places=noisy_tv.PLACES, everywhere=everywhere, door=door)
    paid = np.asarray(reward.compute(rollout))
    return {name: float(paid[noisy_tv.steps(rollout, *places)].mean()) for name, places in STEPS.items()}


def ratios(method: str, name: str, other: str, **arguments: bool) -> list[float]:
    """One mean bonus over another; one ratio for each seed."""
    found = [bonuses(method, seed, **arguments) for seed in SEEDS]
    return [each[name] / each[other] for each in found]


def test_rnd_pays_more_for_noise_than_for_a_new_place() -> None:
    assert min(ratios("rnd", "noise", "new")) > 1


def test_icm_pays_less_for_noise_than_for_a_new_place() -> None:
    assert max(ratios("icm", "noise", "new")) < 0.3


def test_without_its_inverse_model_icm_would_know_the_noise_only() -> None:
    assert min(ratios("icm without its inverse model", "noise", "new")) > 10


def test_noise_everywhere_hides_a_new_place_from_rnd_and_not_from_icm() -> None:
    """How many times as much as known places a new one is paid."""
    seen_by_icm = np.mean(ratios("icm", "new", "known", everywhere=True))
    assert np.mean(ratios("rnd", "new", "known", everywhere=True)) < 8 < 15 < seen_by_icm
    assert np.mean(ratios("icm without its inverse model", "new", "known", everywhere=True)) < 5


def test_disagreement_pays_little_for_noise_that_it_cannot_predict() -> None:
    assert min(ratios("rnd", "noise", "known")) > 200
    assert max(ratios("disagreement", "noise", "known")) < 20


@pytest.mark.parametrize("method", ["disagreement", "disagreement inverse"])
def test_random_features_and_those_of_an_inverse_model_alone_bring_noise_to_the_models(method: str) -> None:
    """In front of the TV, Disagreement pays more than in a place that it does not know."""
    assert min(ratios(method, "from noise", "from new")) > 1.5
    assert min(ratios(method, "from noise", "new")) > 0.3
    assert max(ratios(method, "new", "known", everywhere=True)) < 8


def test_features_that_both_kinds_of_model_train_leave_the_noise_out() -> None:
    """As an outcome, and where the agent stands, it is paid less than a new door and the place behind it."""
    assert max(ratios("disagreement dynamics", "noise", "new")) < 0.05
    assert max(ratios("disagreement dynamics", "from noise", "new")) < 0.05
    assert max(ratios("disagreement dynamics", "from noise", "from new")) < 0.8


def test_noise_everywhere_does_not_hide_a_door_from_disagreement_with_such_features() -> None:
    assert min(ratios("disagreement dynamics", "new", "known", everywhere=True)) > 20


@pytest.mark.parametrize("method", ["icm", "disagreement"])
def test_what_they_pay_for_it_falls(method: str) -> None:
    reward = make_reward(
        method, noisy_tv.SPACE, noisy_tv.ACTIONS, n_envs=4, embedding_size=16, learning_rate=3e-3, update_fraction=1.0
    )
    paid = []
    for seed in range(40):
        rollout = noisy_tv.walk(seed)
        bonus = np.asarray(reward.compute(rollout))
        paid.append(float(bonus[noisy_tv.steps(rollout, None, TV)].mean()))
        reward.update(rollout)
    assert paid[-1] < 0.5 * paid[0]
