"""Intrinsic rewards inside RLlib's PPO (new API stack): the only package that knows RLlib."""

try:
    import ray.rllib  # noqa: F401
except ImportError as error:
    raise ImportError(f"revd.rllib needs Ray's RLlib ({error}); install it with: pip install 'revd[ray]'") from error

from revd.rllib.config import with_intrinsic_reward
from revd.rllib.learner import IntrinsicRewardLearner

__all__ = ["IntrinsicRewardLearner", "with_intrinsic_reward"]
