"""Intrinsic rewards by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from revd.names import unknown_name
from revd.rewards.base import IntrinsicReward
from revd.rewards.config import RewardConfig, build_config
from revd.rewards.noise import Noise
from revd.rewards.re3 import RE3
from revd.rewards.revd import REVD
from revd.rewards.ride import RIDE

if TYPE_CHECKING:
    from revd.spaces import Space

#: Every method by its name in `make_reward`, the callback and the command line.
REWARDS: dict[str, type[IntrinsicReward]] = {"revd": REVD, "re3": RE3, "ride": RIDE, "noise": Noise}


def make_reward(
    reward: str | IntrinsicReward,
    observation_space: Space,
    action_space: Space,
    *,
    n_envs: int,
    **parameters: Any,
) -> IntrinsicReward:
    """Make an intrinsic reward by name; an instance is returned as it is, if it fits.

    Args:
        reward: A name from `REWARDS`, or an instance made for the same spaces and number of environments.
        observation_space: Gymnasium space of one observation.
        action_space: Gymnasium space of one action.
        n_envs: Parallel environments.
        parameters: The method's parameters; none with an instance.

    Raises:
        ValueError: Unknown name or parameter (the message lists the nearest valid ones), or a value out of range.
    """
    check_parameters(reward, parameters)
    if isinstance(reward, IntrinsicReward):
        _check_instance(reward, observation_space, action_space, n_envs)
        return reward
    return REWARDS[reward](observation_space, action_space, n_envs, **parameters)


def check_parameters(reward: str | IntrinsicReward, parameters: dict[str, Any], *, besides: Sequence[str] = ()) -> None:
    """Raise the ValueError that `make_reward` would raise for a name or parameters, before spaces are known.

    Args:
        reward: A name or an instance.
        parameters: The method's parameters.
        besides: Other keywords of the caller, which the message about an unknown name may suggest.
    """
    if isinstance(reward, IntrinsicReward):
        if parameters:
            method = type(reward).__name__
            raise ValueError(
                f"parameters ({', '.join(parameters)}) cannot change the {method} instance that was given: "
                "pass them to make_reward, or to the class, when you create it"
            )
        return
    if not isinstance(reward, str) or reward not in REWARDS:
        raise ValueError(unknown_name("reward", str(reward), REWARDS))
    build_config(REWARDS[reward].config_type, REWARDS[reward].__name__, parameters, besides=besides)


def _check_instance(reward: IntrinsicReward, observation_space: Space, action_space: Space, n_envs: int) -> None:
    expected = {"observation_space": observation_space, "action_space": action_space, "n_envs": n_envs}
    for name, value in expected.items():
        if getattr(reward, name) != value:
            method = type(reward).__name__
            raise ValueError(f"the {method} instance was made for {name} {getattr(reward, name)}, not {value}")


__all__ = [
    "RE3",
    "REVD",
    "REWARDS",
    "RIDE",
    "IntrinsicReward",
    "Noise",
    "RewardConfig",
    "check_parameters",
    "make_reward",
]
