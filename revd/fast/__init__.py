"""SB3's PPO and A2C at the speed of the hardware: rollouts on the device, CUDA graphs, channels_last."""

from revd.fast.a2c import FastA2C
from revd.fast.ppo import FastPPO

__all__ = ["FastA2C", "FastPPO"]
