"""Faster PPO and A2C for SB3: rollouts on the GPU, CUDA graphs, images in channels_last."""

from revd.fast.a2c import FastA2C
from revd.fast.ppo import FastPPO

__all__ = ["FastA2C", "FastPPO"]
