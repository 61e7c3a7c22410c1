"""The weighted bonus compared with the task's reward."""

import numpy as np
import pytest

from revd.weighting.balance import Balance

NEGLIGIBLE = Balance(share=0.001, std_ratio=0.001, pays=True)
FINE = Balance(share=0.3, std_ratio=0.5, pays=True)
DROWNING = Balance(share=0.99, std_ratio=50.0, pays=True)
SILENT_TASK = Balance(share=1.0, std_ratio=None, pays=False)


def test_share_and_ratio() -> None:
    bonus = np.array([[1.0, -1.0], [3.0, 1.0]])
    extrinsic = np.array([[0.0, -2.0], [0.0, 0.0]])
    balance = Balance.compare(bonus, extrinsic, task=extrinsic)
    assert balance.share == pytest.approx(6 / 8)
    assert balance.std_ratio == pytest.approx(bonus.std() / extrinsic.std())


@pytest.mark.parametrize("constant", [0.0, -1.0, 0.1, 1e6])
def test_a_constant_reward_has_no_ratio(constant: float) -> None:
    extrinsic = np.full((128, 10), constant, dtype=np.float32)
    scaled = extrinsic / np.linspace(1, 2, 128)[:, None]
    assert Balance.compare(np.random.default_rng(0).random((128, 10)), scaled, task=extrinsic).std_ratio is None


@pytest.mark.parametrize(("reward", "pays"), [(0.0, False), (-1.0, False), (1.0, True), (1e-9, True)])
def test_a_task_pays_with_a_reward_above_nothing(reward: float, pays: bool) -> None:
    task = np.full((4, 2), -1.0)
    task[2, 1] = reward
    # As if VecNormalize had turned its sign.
    assert Balance.compare(np.ones((4, 2)), -task, task=task).pays == pays


SMALL = np.array([[0.0, 1e-9]])


def test_a_small_but_varying_reward_has_a_ratio() -> None:
    assert Balance.compare(np.array([[1.0, 2.0]]), SMALL, task=SMALL).std_ratio == pytest.approx(1e9)


def test_nothing_against_nothing_is_a_share_of_zero() -> None:
    nothing = np.zeros((4, 2))
    assert Balance.compare(nothing, nothing, task=nothing) == Balance(share=0.0, std_ratio=None, pays=False)


@pytest.mark.parametrize(
    ("balance", "negligible", "drowning"),
    [
        (NEGLIGIBLE, True, False),
        (FINE, False, False),
        (DROWNING, False, True),
        (SILENT_TASK, False, True),
        (Balance(share=0.001, std_ratio=None, pays=True), True, False),
        # A constant -1 a step with rare events: the share says little, the ratio decides.
        (Balance(share=0.001, std_ratio=0.5, pays=True), False, False),
        (Balance(share=0.99, std_ratio=0.5, pays=True), False, False),
        (Balance(share=0.5, std_ratio=50.0, pays=True), False, False),
    ],
)
def test_verdicts(balance: Balance, negligible: bool, drowning: bool) -> None:
    assert (balance.negligible, balance.drowning) == (negligible, drowning)
