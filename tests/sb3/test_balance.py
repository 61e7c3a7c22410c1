"""The bonus against the task's reward, and when that is worth a warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from revd.sb3.balance import PATIENCE, Balance, BalanceWatch

NEGLIGIBLE = Balance(share=0.001, std_ratio=0.001)
FINE = Balance(share=0.3, std_ratio=0.5)
DROWNING = Balance(share=0.99, std_ratio=50.0)
DROWNING_SILENT_TASK = Balance(share=1.0, std_ratio=None)


def messages(*balances: Balance, undecayed: Balance | None = None) -> list[str]:
    watch = BalanceWatch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for balance in balances:
            watch.observe(balance, undecayed=undecayed or balance)
    assert all(issubclass(entry.category, UserWarning) for entry in caught)
    return [str(entry.message) for entry in caught]


def test_share_and_ratio() -> None:
    bonus = np.array([[1.0, -1.0], [3.0, 1.0]])
    extrinsic = np.array([[0.0, -2.0], [0.0, 0.0]])
    balance = Balance.of(bonus, extrinsic, varies=True)
    assert balance.share == pytest.approx(6 / 8)
    assert balance.std_ratio == pytest.approx(bonus.std() / extrinsic.std())


@pytest.mark.parametrize("constant", [0.0, -1.0, 0.1, 1e6])
def test_a_constant_reward_has_no_ratio(constant: float) -> None:
    extrinsic = np.full((128, 10), constant, dtype=np.float32)
    assert Balance.of(np.random.default_rng(0).random((128, 10)), extrinsic, varies=False).std_ratio is None


def test_a_small_but_varying_reward_has_a_ratio() -> None:
    assert Balance.of(np.array([[1.0, 2.0]]), np.array([[0.0, 1e-9]]), varies=True).std_ratio == pytest.approx(1e9)


def test_nothing_against_nothing_is_a_share_of_zero() -> None:
    nothing = np.zeros((4, 2))
    assert Balance.of(nothing, nothing, varies=True) == Balance(share=0.0, std_ratio=None)


@pytest.mark.parametrize(
    ("balance", "negligible", "drowning"),
    [
        (NEGLIGIBLE, True, False),
        (FINE, False, False),
        (DROWNING, False, True),
        (DROWNING_SILENT_TASK, False, True),
        (Balance(share=0.001, std_ratio=None), True, False),
        # A constant -1 a step with rare events: the share says little, the ratio decides.
        (Balance(share=0.001, std_ratio=0.5), False, False),
        (Balance(share=0.99, std_ratio=0.5), False, False),
        (Balance(share=0.5, std_ratio=50.0), False, False),
    ],
)
def test_verdicts(balance: Balance, negligible: bool, drowning: bool) -> None:
    assert (balance.negligible, balance.drowning) == (negligible, drowning)


def test_negligible_for_twenty_rollouts_warns_once() -> None:
    assert PATIENCE == 20
    assert messages(*[NEGLIGIBLE] * 19) == []
    (message,) = messages(*[NEGLIGIBLE] * 20)
    assert "Raise weight" in message
    assert "normalize='rms'" in message
    assert len(messages(*[NEGLIGIBLE] * 60)) == 1


def test_before_the_first_payment_nothing_is_negligible() -> None:
    unpaid = Balance(share=0.0, std_ratio=0.0)
    assert messages(*[unpaid] * 100) == []
    assert len(messages(*[unpaid] * 100, *[NEGLIGIBLE] * 20)) == 1
    assert len(messages(NEGLIGIBLE, *[unpaid] * 19)) == 1, "once it has been paid, nothing is too little"


def test_drowning_for_twenty_rollouts_warns_once() -> None:
    assert messages(*[DROWNING] * 19) == []
    (message,) = messages(*[DROWNING] * 20)
    assert "Lower weight" in message
    assert "extrinsic_weight=0" in message
    assert len(messages(*[DROWNING] * 60)) == 1


def test_each_warning_comes_once_in_a_training() -> None:
    """Also when the imbalance goes away in between and comes back."""
    assert len(messages(*[NEGLIGIBLE] * 20, FINE, *[NEGLIGIBLE] * 20)) == 1
    assert len(messages(*[DROWNING] * 20, FINE, *[DROWNING] * 20)) == 1
    assert len(messages(*[DROWNING] * 20, *[NEGLIGIBLE] * 20)) == 2


def test_interruptions_start_the_count_anew() -> None:
    assert messages(*[NEGLIGIBLE] * 19, FINE, *[NEGLIGIBLE] * 19) == []
    assert messages(*[DROWNING] * 19, FINE, *[DROWNING] * 19) == []


def test_a_task_that_has_not_spoken_yet_cannot_be_drowned() -> None:
    assert messages(*[DROWNING_SILENT_TASK] * 100) == []
    assert messages(*[DROWNING_SILENT_TASK] * 100, FINE) == []
    assert len(messages(*[DROWNING_SILENT_TASK] * 100, FINE, *[DROWNING_SILENT_TASK] * 20)) == 1


def test_a_bonus_that_has_decayed_is_neither_negligible_nor_drowning() -> None:
    """It was asked to fade; and what it would be without decay drowns nobody."""
    assert messages(*[NEGLIGIBLE] * 40, undecayed=FINE) == []
    assert messages(*[FINE] * 40, undecayed=DROWNING) == []
