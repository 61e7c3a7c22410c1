"""Intrinsic rewards inside Stable-Baselines3, with FastPPO and FastA2C."""

try:
    import stable_baselines3  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"revd.sb3 needs Stable-Baselines3 ({error}); install it with: pip install 'revd[sb3]'"
    ) from error

from revd.fast import FastA2C, FastPPO
from revd.sb3.callback import IntrinsicRewardCallback
from revd.sb3.coverage import CoverageCallback

__all__ = ["CoverageCallback", "FastA2C", "FastPPO", "IntrinsicRewardCallback"]
