"""What the settings of runs from before a bonus could yield to the task mean."""

from typing import Any

import pytest

from revd.former_defaults import with_former_yielding
from revd.runs.config import TrainConfig

AUTOMATIC = {"task": "CartPole-v1", "reward": "revd", "weight": "auto"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"yield_to_task": True}, True),
        ({"yield_to_task": False}, False),
        ({"yield_to_task": True, "resolved": {"yield_to_task": False}}, False),
        ({"yield_to_task": True, "resolved": {"yield_to_task": True}}, True),
        ({"yield_to_task": True, "resolved": "damaged"}, True),
        ({"weight": 0.1}, None),
        ({"reward": "none"}, None),
    ],
)
def test_a_bonus_of_earlier_versions_acted(changes: dict[str, Any], expected: bool | None) -> None:
    assert with_former_yielding({**AUTOMATIC, **changes}).get("yield_to_task") is expected


def test_a_config_of_an_earlier_version_is_another_training_than_todays() -> None:
    earlier, today = TrainConfig.from_dict(AUTOMATIC), TrainConfig(task="CartPole-v1")
    assert earlier.differences(today) == ["yield_to_task is False there and True here"]
    assert TrainConfig.from_dict(today.to_dict()) == today
