"""When a bonus out of proportion is worth a warning."""

from __future__ import annotations

import warnings
from dataclasses import fields
from typing import Any

import pytest

from revd.runs.config import TrainConfig
from revd.weighting.balance import Balance
from revd.weighting.balance_warnings import (
    IN_PYTHON,
    ON_COMMAND_LINE,
    BalanceWarnings,
    Remedies,
    RolloutSize,
)

NEGLIGIBLE = Balance(share=0.001, std_ratio=0.001, pays=True)
FINE = Balance(share=0.3, std_ratio=0.5, pays=True)
DROWNING = Balance(share=0.99, std_ratio=50.0, pays=True)
SILENT_TASK = Balance(share=1.0, std_ratio=None, pays=False)
COSTS = Balance(share=0.99, std_ratio=50.0, pays=False)


def caught(act: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        act()
    assert all(issubclass(entry.category, UserWarning) for entry in found)
    return [str(entry.message) for entry in found]


def messages(
    *balances: Balance,
    undecayed: Balance | None = None,
    shape: tuple[int, int] = (4, 2),
    remedies: Remedies = IN_PYTHON,
) -> list[str]:
    observer = BalanceWarnings(remedies)

    def act() -> None:
        for balance in balances:
            observer.observe(balance, undecayed=undecayed or balance, size=RolloutSize(shape[0], shape[0] * shape[1]))

    return caught(act)


def messages_about_duplicates(*shares: float, eps: float = 1e-4, shape: tuple[int, int] = (4, 2)) -> list[str]:
    observer = BalanceWarnings()

    def act() -> None:
        for share in shares:
            observer.observe_duplicates(share, eps=eps, size=RolloutSize(shape[0], shape[0] * shape[1]))

    return caught(act)


def test_negligible_for_twenty_rollouts_warns_once() -> None:
    assert messages(*[NEGLIGIBLE] * 19) == []
    (message,) = messages(*[NEGLIGIBLE] * 20)
    assert "under 1% of the reward for 160 steps (20 rollouts)" in message
    assert "Raise weight" in message
    assert "normalize='rms'" in message
    assert len(messages(*[NEGLIGIBLE] * 60)) == 1


@pytest.mark.parametrize("balance", [NEGLIGIBLE, DROWNING])
def test_long_rollouts_are_warned_of_by_their_steps(balance: Balance) -> None:
    """Ten thousand steps are enough, in however few rollouts."""
    assert messages(*[balance] * 4, shape=(1024, 2)) == []
    (message,) = messages(*[balance] * 5, shape=(1024, 2))
    assert "for 10,240 steps (5 rollouts)" in message
    (message,) = messages(balance, shape=(2048, 8))
    assert "for 16,384 steps (1 rollout)" in message
    assert len(messages(*[balance] * 30, shape=(1024, 2))) == 1
    assert messages(*[balance, balance, balance, FINE] * 3, shape=(3000, 1)) == [], "in a row"
    assert messages(*[balance] * 19, shape=(10, 4096)) == [], "a hundred steps of thousands are but the beginning"


def test_before_the_first_payment_nothing_is_negligible() -> None:
    unpaid = Balance(share=0.0, std_ratio=0.0, pays=True)
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


@pytest.mark.parametrize("balance", [SILENT_TASK, COSTS])
def test_a_task_that_has_not_paid_yet_is_not_called_drowned(balance: Balance) -> None:
    assert messages(*[balance] * 100) == [], "800 steps are nothing to speak of"
    assert messages(*[balance] * 9, FINE, shape=(512, 2)) == []
    (message,) = messages(*[balance] * 30, shape=(512, 2))
    assert "the task has not paid yet: no reward was above 0 in 10,240 steps (10 rollouts)" in message
    assert "drown" not in message
    (message,) = messages(*[balance] * 100, FINE, *[balance] * 20)
    assert "drowns" in message, "it has paid"


def test_after_an_old_file_no_warning_says_that_the_task_has_not_paid() -> None:
    """It does not tell whether the task has."""
    observer = BalanceWarnings()
    observer.restore({})
    said = caught(
        lambda: [observer.observe(SILENT_TASK, undecayed=SILENT_TASK, size=RolloutSize(512, 1024)) for _ in range(30)]
    )
    assert [message.split(":")[1].split(".")[0] for message in said] == [" it drowns the task's reward"]


def test_a_bonus_that_has_decayed_is_neither_negligible_nor_drowning() -> None:
    """The user asked for the decay, and drowning is judged with it."""
    assert messages(*[NEGLIGIBLE] * 40, undecayed=FINE) == []
    assert messages(*[FINE] * 40, undecayed=DROWNING) == []


def test_many_duplicates_are_warned_of_once() -> None:
    assert messages_about_duplicates(*[0.88] * 19) == []
    assert messages_about_duplicates(*[0.5] * 100) == []
    assert messages_about_duplicates(*[*[0.88] * 19, 0.2] * 3) == []
    (message,) = messages_about_duplicates(*[0.88] * 60)
    assert (
        "over 50% of the states have had an exact copy in their segment for 160 steps (20 rollouts), now 88%" in message
    )
    assert "eps = 0.0001" in message
    assert "eps=0.1" in message
    assert "merge_duplicates=True" in message
    assert len(messages_about_duplicates(0.88, shape=(5000, 2))) == 1


def test_a_large_eps_brings_no_warning() -> None:
    assert messages_about_duplicates(*[0.88] * 60, eps=0.1) == []


@pytest.mark.parametrize("balance", [NEGLIGIBLE, DROWNING, SILENT_TASK])
def test_the_command_line_is_advised_in_its_own_words(balance: Balance) -> None:
    (message,) = messages(*[balance] * 20, shape=(500, 2), remedies=ON_COMMAND_LINE)
    assert "--weight" in message
    for field in fields(Remedies):
        theirs = getattr(IN_PYTHON, field.name)
        assert theirs == "weight" or theirs == "decay" or theirs not in message
    (message,) = messages(*[balance] * 20, shape=(500, 2))
    assert "--" not in message


def test_the_flags_that_are_advised_exist() -> None:
    flags = {f"--{field.name.replace('_', '-')}" for field in fields(TrainConfig)} | {"--no-yield-to-task"}
    words = " ".join(getattr(ON_COMMAND_LINE, field.name) for field in fields(Remedies)).split()
    assert {word for word in words if word.startswith("--")} <= flags
