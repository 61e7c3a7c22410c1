"""The weighting as adapters use it: one comparison for each rollout, without any framework."""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import revd.weighting
from revd import make_reward
from revd.weighting.balance_warnings import RolloutSize
from revd.weighting.weighting import Weighting
from tests.support.rollouts import BOX, DISCRETE

SIZE = RolloutSize(steps_per_env=500, steps=1_000)


def caught(
    bonus: float, *, weight: float = 0.1, extrinsic_weight: float = 1.0, duplicates: float = 0.0, merge: bool = False
) -> list[str]:
    """The warnings of 20 rollouts with such a bonus beside rewards of 0 and 1."""
    weighting = Weighting(weight=weight, decay=0.0, decay_per="rollout", extrinsic_weight=extrinsic_weight)
    reward = make_reward("revd", BOX, DISCRETE, n_envs=2, merge_duplicates=merge)
    reward.record(duplicates=duplicates)
    task = np.arange(8.0).reshape(4, 2) % 2
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(20):
            weights = weighting.schedule.next_weights(np.full(4, 2))
            weighting.check_balance(bonus * task, weights, task, task=task, size=SIZE)
            weighting.check_rollout(reward, SIZE)
    return [str(entry.message) for entry in found]


def test_the_balance_is_that_of_the_weighted_rewards() -> None:
    weighting = Weighting(weight=0.5, decay=0.5, decay_per="rollout", extrinsic_weight=2.0)
    task = np.array([[1.0, 0.0], [0.0, 3.0]])
    bonus = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    weights = weighting.schedule.next_weights(np.full(2, 2))
    balance = weighting.check_balance(bonus, weights, task, task=task, size=SIZE)
    assert balance.share == pytest.approx(0.25 * 10 / (0.25 * 10 + 2 * 4))
    assert balance.std_ratio == pytest.approx(0.25 * bonus.std() / (2 * task.std()))


def test_each_disproportion_has_its_warning() -> None:
    assert caught(1.0) == []
    for bonus, words in ((1e-3, "does not steer the policy"), (1e3, "drowns the task's reward")):
        (message,) = caught(bonus)
        assert words in message
    (message,) = caught(1.0, duplicates=0.9)
    assert "exact copy in their segment" in message
    assert caught(1.0, duplicates=0.9, merge=True) == [], "they are one state"


@pytest.mark.parametrize("bonus", [0.0, 1e-3, 1e3])
def test_training_on_one_of_the_two_alone_is_not_warned_about(bonus: float) -> None:
    assert caught(bonus, extrinsic_weight=0.0) == []
    assert caught(bonus, weight=0.0, duplicates=0.9) == []


@pytest.mark.parametrize("value", ["1", None, -1])
def test_the_extrinsic_weight_is_a_number(value: Any) -> None:
    with pytest.raises(ValueError, match="extrinsic_weight must be a number of at least 0"):
        Weighting(weight=0.1, decay=0.0, decay_per="rollout", extrinsic_weight=value)


def test_an_episode_that_was_cut_by_a_reset_is_not_a_short_one() -> None:
    """MountainCar pays -1 a step: only episodes of different lengths say something."""
    weighting = Weighting(weight="auto", decay=0.0, decay_per="rollout", extrinsic_weight=1.0)
    weighting.attach(make_reward("noise", BOX, DISCRETE, n_envs=1))
    assert weighting.automatic is not None
    ends = {"whole": np.array([0, 0, 0, 1, 0, 0], bool), "after a reset": np.array([0, 0, 0, 1, 0, 0], bool)}
    for dones in ends.values():
        told = weighting.automatic.observe_task(np.full((6, 1), -1.0), dones[:, None], np.ones((6, 1), bool))
        weighting.end_episodes()
    assert told["task_speaks"] == 0


@pytest.mark.parametrize(
    ("settings", "dense", "warned"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"yield_to_task": False}, True, False),
        ({"strength": 0.0}, True, False),
        ({"extrinsic_weight": 0.0}, True, False),
    ],
)
def test_a_bonus_that_has_yielded_for_long_is_said_once(settings: dict[str, Any], dense: bool, warned: bool) -> None:
    weighting = Weighting(
        **{"weight": "auto", "decay": 0.0, "decay_per": "rollout", "extrinsic_weight": 1.0, **settings}
    )
    reward, size = make_reward("noise", BOX, DISCRETE, n_envs=2), RolloutSize(steps_per_env=6, steps=12)
    weighting.attach(reward)
    assert weighting.automatic is not None
    rewards = np.arange(12.0).reshape(6, 2) * dense
    found = []
    for _ in range(30):
        weighting.automatic.observe_task(rewards, np.zeros((6, 2), bool), np.ones((6, 2), bool))
        with warnings.catch_warnings(record=True) as caught_now:
            warnings.simplefilter("always")
            weighting.check_rollout(reward, size)
        found.append([str(entry.message) for entry in caught_now])
    assert [bool(each) for each in found] == [warned and index == 19 for index in range(30)]
    if warned:
        assert "240 steps (20 rollouts)" in found[19][0]
        assert "To let it act, set yield_to_task=False." in found[19][0]


def test_the_package_knows_no_framework() -> None:
    imported = {
        line.split()[1].partition(".")[0]
        for path in Path(revd.weighting.__file__).parent.glob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith(("import ", "from "))
    }
    assert imported - set(sys.stdlib_module_names) == {"numpy", "torch", "revd"}


@pytest.mark.parametrize(("weight", "advised"), [("auto", "a lower strength,"), (0.5, "a lower weight,")])
def test_advice_about_duplicates_names_the_strength_where_the_weight_is_automatic(weight: Any, advised: str) -> None:
    weighting = Weighting(weight=weight, decay=0.0, decay_per="rollout", extrinsic_weight=1.0)
    reward = make_reward("revd", BOX, DISCRETE, n_envs=2, merge_duplicates=False)
    reward.record(duplicates=0.9)
    for _ in range(19):
        weighting.check_rollout(reward, RolloutSize(steps_per_env=6, steps=12))
    with pytest.warns(UserWarning, match=advised):
        weighting.check_rollout(reward, RolloutSize(steps_per_env=6, steps=12))
