"""What one reward has saved, put into another that is like it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from revd.rewards.base import IntrinsicReward
    from revd.rewards.config import RewardConfig


def check_saved_parameters(method: str, config: RewardConfig, saved: Mapping[str, Any]) -> None:
    """Raise a ValueError that names what differs between a reward's parameters and those of a saved one."""
    for name, value in asdict(config).items():
        # What was drawn from the seed comes with the state.
        if name != "seed" and saved.get(name) != value:
            raise ValueError(
                f"the saved state of {method} does not fit this reward's parameters: {name} was "
                f"{saved.get(name)!r}, here it is {value!r}"
            )


def load_saved_state(reward: IntrinsicReward, state: Mapping[str, Tensor]) -> None:
    """Load the whole state, or raise a ValueError and leave the reward as it is."""
    try:
        # load_state_dict copies what fits before it raises about what does not: a copy is tried first.
        deepcopy(reward).load_state_dict(state)
    except RuntimeError as error:
        method = type(reward).__name__
        raise ValueError(f"the saved state of {method} does not fit this reward's parameters: {error}") from error
    reward.load_state_dict(state)
