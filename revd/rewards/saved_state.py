"""Loading the saved state of one reward into another of the same method and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from revd.rewards.base import IntrinsicReward
    from revd.rewards.config import RewardConfig


def check_saved_parameters(method: str, config: RewardConfig, saved: Mapping[str, Any]) -> None:
    """Raise a ValueError that names a parameter in which a reward differs from the saved one."""
    # An older file does not know later parameters: it was written by what is their default now.
    saved = {field.name: field.default for field in fields(config)} | dict(saved)
    for name, value in asdict(config).items():
        # The state holds what was drawn from the seed.
        if name != "seed" and saved[name] != value:
            raise ValueError(
                f"the saved state of {method} does not fit this reward's parameters: {name} was "
                f"{saved[name]!r}, here it is {value!r}"
            )


def load_saved_state(reward: IntrinsicReward, state: Mapping[str, Tensor]) -> None:
    """Load the whole state, or raise a ValueError and leave the reward unchanged."""
    try:
        # load_state_dict copies what fits before it raises for the rest, so a copy is tried first.
        deepcopy(reward).load_state_dict(state)
    except RuntimeError as error:
        method = type(reward).__name__
        raise ValueError(f"the saved state of {method} does not fit this reward's parameters: {error}") from error
    reward.load_state_dict(state)
