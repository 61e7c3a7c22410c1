"""Exploration rewards for reinforcement learning.

The heart is REVD, Rewarding Episodic Visitation Discrepancy. Importing this package loads no RL framework, no
environment and no plotting library; torch is loaded with the first name that is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from revd.functional import episode_distances, neighbor_distances, renyi_divergence
    from revd.rewards import RE3, REVD, RIDE, IntrinsicReward, MixedReward, make_reward, register_reward
    from revd.rollout import Rollout

__version__ = "0.1.0"

__all__ = [
    "RE3",
    "REVD",
    "RIDE",
    "IntrinsicReward",
    "MixedReward",
    "Rollout",
    "episode_distances",
    "make_reward",
    "neighbor_distances",
    "register_reward",
    "renyi_divergence",
]

_HOMES = {
    "revd.functional": ("episode_distances", "neighbor_distances", "renyi_divergence"),
    "revd.rewards": ("RE3", "REVD", "RIDE", "IntrinsicReward", "MixedReward", "make_reward", "register_reward"),
    "revd.rollout": ("Rollout",),
}
#: Packages that are attributes of `revd`. They load a framework, so `from revd import *` excludes them.
_PACKAGES = ("rllib", "sb3")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name on its first use, so that `revd --help` does not load torch."""
    if name in _PACKAGES:
        return import_module(f"revd.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'revd' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
