"""Intrinsic rewards inside Stable-Baselines3: the only package of `revd` that knows it."""

from revd.sb3.callback import IntrinsicRewardCallback

__all__ = ["IntrinsicRewardCallback"]
