"""Faster PPO and A2C for SB3: rollouts on the GPU, CUDA graphs, images in channels_last."""

try:
    import stable_baselines3  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"revd.fast needs Stable-Baselines3 ({error}); install it with: pip install 'revd[sb3]'"
    ) from error

from revd.fast.a2c import FastA2C
from revd.fast.ppo import FastPPO

__all__ = ["FastA2C", "FastPPO"]
