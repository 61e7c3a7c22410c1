"""Loading the saved state of one reward into another of the same method and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from revd.former_defaults import FORMER_DEFAULTS, former_member_defaults

if TYPE_CHECKING:
    from torch import Tensor, nn

    from revd.rewards.base import IntrinsicReward
    from revd.rewards.config import RewardConfig


def check_saved_parameters(method: str, config: RewardConfig, saved: Mapping[str, Any]) -> None:
    """Raise a ValueError that names a parameter in which a reward differs from the saved one."""
    # States from before a parameter existed were saved without it.
    defaults = {field.name: field.default for field in fields(config)}
    found = _flat({**defaults, **_with_former(FORMER_DEFAULTS.get(method.lower(), {}), saved)})
    for name, value in _flat(asdict(config)).items():
        # The state holds what was drawn from the seed.
        if name.rpartition(".")[2] != "seed" and found.get(name) != value:
            raise ValueError(
                f"the saved state of {method} does not fit this reward's parameters: {name} was "
                f"{found.get(name)!r}, here it is {value!r}"
            )


def _with_former(former: Mapping[str, Any], saved: Mapping[str, Any]) -> dict[str, Any]:
    """Saved parameters with those that they do not name because they are older; in a mixture, for each member."""
    members = saved.get("members")
    if not isinstance(members, Mapping):
        return {**former, **saved}
    each = {
        name: _with_former(former_member_defaults(name), values)
        for name, values in members.items()
        if isinstance(values, Mapping)
    }
    return {**saved, "members": {**members, **each}}


def _flat(parameters: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Parameters by dotted name: those of a mixture's members are dicts in a dict."""
    flat: dict[str, Any] = {}
    for name, value in parameters.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def load_saved_state(reward: IntrinsicReward, state: Mapping[str, Tensor]) -> None:
    """Load the whole state, or raise a ValueError and leave the reward unchanged."""
    method = type(reward).__name__
    load_whole_state(reward, state, f"the saved state of {method} does not fit this reward's parameters")


def load_whole_state(module: nn.Module, state: Mapping[str, Tensor], message: str) -> None:
    """Load a module's whole state, or raise a ValueError with this message and leave the module unchanged."""
    try:
        # load_state_dict copies what fits before it raises for the rest, so a copy is tried first.
        deepcopy(module).load_state_dict(state)
    except RuntimeError as error:
        raise ValueError(f"{message}: {error}") from error
    module.load_state_dict(state)
