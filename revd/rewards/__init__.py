"""Intrinsic rewards by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from revd.rewards.base import IntrinsicReward
from revd.rewards.config import RewardConfig
from revd.rewards.counts import Counts
from revd.rewards.disagreement import Disagreement
from revd.rewards.drnd import DRND
from revd.rewards.e3b import E3B
from revd.rewards.icm import ICM
from revd.rewards.mixed import MixedReward
from revd.rewards.ngu import NGU
from revd.rewards.noise import Noise
from revd.rewards.noveld import NovelD
from revd.rewards.re3 import RE3
from revd.rewards.recipes import Recipe, RewardLike, find_recipe
from revd.rewards.registry import RewardRegistry
from revd.rewards.revd import REVD
from revd.rewards.ride import RIDE
from revd.rewards.rise import RISE
from revd.rewards.rnd import RND

if TYPE_CHECKING:
    from revd.spaces import Space

#: Every method by its name in `make_reward`, the callback and the command line.
REWARDS: dict[str, type[IntrinsicReward]] = {
    "revd": REVD,
    "re3": RE3,
    "ride": RIDE,
    "rise": RISE,
    "counts": Counts,
    "rnd": RND,
    "icm": ICM,
    "disagreement": Disagreement,
    "ngu": NGU,
    "e3b": E3B,
    "noveld": NovelD,
    "drnd": DRND,
    "noise": Noise,
}

#: All rewards that have a name.
REGISTRY = RewardRegistry(REWARDS)
register_reward = REGISTRY.register_reward


def make_reward(
    reward: RewardLike,
    observation_space: Space,
    action_space: Space,
    *,
    n_envs: int,
    **parameters: Any,
) -> IntrinsicReward:
    """Make an intrinsic reward by name; an instance is returned as it is, if it fits.

    Args:
        reward: A name (of `REWARDS`, registered, or of a plug-in), MODULE:CLASS, a list of such names for a
            `MixedReward` (or "revd+rnd"), or an instance made for the same spaces and number of environments.
        observation_space: Gymnasium space of one observation.
        action_space: Gymnasium space of one action.
        n_envs: Parallel environments.
        parameters: The method's parameters; none with an instance. For a mixture: `weights`, `normalize`, a `seed` for
            all members, and a dict of parameters under a member's name, such as `revd={"k": 5}`.

    Raises:
        ValueError: Unknown name or parameter (the message lists the nearest valid ones), or a value out of range.
    """
    if isinstance(reward, IntrinsicReward):
        check_parameters(reward, parameters)
        _check_instance(reward, observation_space, action_space, n_envs)
        return reward
    return recipe(reward, parameters).make(observation_space, action_space, n_envs)


def check_parameters(reward: RewardLike, parameters: dict[str, Any], *, besides: Sequence[str] = ()) -> None:
    """Raise the ValueError that `make_reward` would raise for a name or parameters, before spaces are known.

    Args:
        reward: A name, names, or an instance.
        parameters: The method's parameters.
        besides: Other keywords of the caller, which the message about an unknown name may suggest.
    """
    if not isinstance(reward, IntrinsicReward):
        recipe(reward, parameters, besides=besides)
    elif parameters:
        method = type(reward).__name__
        raise ValueError(
            f"parameters ({', '.join(parameters)}) cannot change the {method} instance that was given: "
            "pass them to make_reward, or to the class, when you create it"
        )


def recipe(reward: str | Sequence[str], parameters: Mapping[str, Any], *, besides: Sequence[str] = ()) -> Recipe:
    """The class and the checked parameters of a reward asked for by name; see `make_reward`."""
    return find_recipe(REGISTRY, reward, parameters, besides)


def _check_instance(reward: IntrinsicReward, observation_space: Space, action_space: Space, n_envs: int) -> None:
    expected = {"observation_space": observation_space, "action_space": action_space, "n_envs": n_envs}
    for name, value in expected.items():
        if getattr(reward, name) != value:
            method = type(reward).__name__
            raise ValueError(f"the {method} instance was made for {name} {getattr(reward, name)}, not {value}")


__all__ = [
    "DRND",
    "E3B",
    "ICM",
    "NGU",
    "RE3",
    "REGISTRY",
    "REVD",
    "REWARDS",
    "RIDE",
    "RISE",
    "RND",
    "Counts",
    "Disagreement",
    "IntrinsicReward",
    "MixedReward",
    "Noise",
    "NovelD",
    "RewardConfig",
    "RewardLike",
    "check_parameters",
    "make_reward",
    "recipe",
    "register_reward",
]
