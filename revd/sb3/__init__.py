"""Intrinsic rewards inside Stable-Baselines3, and its PPO and A2C made faster: the only package that knows it."""

from revd.sb3.callback import IntrinsicRewardCallback
from revd.sb3.fast import FastA2C, FastPPO

__all__ = ["FastA2C", "FastPPO", "IntrinsicRewardCallback"]
