"""Loading the saved state of one reward into another of the same method and parameters."""

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
    """Raise a ValueError that names a parameter in which a reward differs from the saved one."""
    found = _flat(saved)
    for name, value in _flat(asdict(config)).items():
        # The state holds what was drawn from the seed.
        if name.rpartition(".")[2] != "seed" and found.get(name) != value:
            raise ValueError(
                f"the saved state of {method} does not fit this reward's parameters: {name} was "
                f"{found.get(name)!r}, here it is {value!r}"
            )


def _flat(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Parameters by dotted name: those of a mixture's members are dicts in a dict."""
    flat: dict[str, Any] = {}
    for name, value in parameters.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def load_saved_state(reward: IntrinsicReward, state: Mapping[str, Tensor]) -> None:
    """Load the whole state, or raise a ValueError and leave the reward unchanged."""
    try:
        # load_state_dict copies what fits before it raises for the rest, so a copy is tried first.
        deepcopy(reward).load_state_dict(state)
    except RuntimeError as error:
        method = type(reward).__name__
        raise ValueError(f"the saved state of {method} does not fit this reward's parameters: {error}") from error
    reward.load_state_dict(state)
