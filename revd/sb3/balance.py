"""How the bonus stands against the task's own reward, and a warning when it vanishes or drowns it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from revd.sb3.recorder import Array

#: Consecutive rollouts after which a standing imbalance is worth a warning.
PATIENCE = 20
#: Share of the reward and ratio of standard deviations under which the bonus is negligible.
NEGLIGIBLE = 0.01
#: Share of the reward and ratio of standard deviations over which the bonus drowns the task's reward.
DROWNING_SHARE, DROWNING_RATIO = 0.9, 3.0


@dataclass(frozen=True)
class Balance:
    """The weighted bonus of one rollout against the weighted extrinsic reward.

    Attributes:
        share: The bonus's part of the total absolute reward, 0 if both are 0.
        std_ratio: Ratio of the standard deviations, None where the extrinsic reward does not vary: a constant -1 a step
            is large, yet carries no signal.
    """

    share: float
    std_ratio: float | None

    @classmethod
    def of(cls, bonus: Array, extrinsic: Array, *, varies: bool) -> Balance:
        """Compare two arrays of weighted rewards, (n_steps, n_envs); `varies` says whether the task's reward does."""
        # In 64 bits: the sum of rewards that float32 can just hold is one that it cannot.
        bonus, extrinsic = bonus.astype(np.float64), extrinsic.astype(np.float64)
        paid, earned = float(np.abs(bonus).sum()), float(np.abs(extrinsic).sum())
        spread = float(extrinsic.std())
        return cls(
            share=paid / (paid + earned) if paid + earned > 0 else 0.0,
            std_ratio=float(bonus.std()) / spread if varies and spread > 0 else None,
        )

    @property
    def negligible(self) -> bool:
        """The bonus is too small to matter."""
        return self.share < NEGLIGIBLE and (self.std_ratio is None or self.std_ratio < NEGLIGIBLE)

    @property
    def drowning(self) -> bool:
        """The bonus hides the task's reward."""
        return self.share > DROWNING_SHARE and (self.std_ratio is None or self.std_ratio > DROWNING_RATIO)


class BalanceWatch:
    """Warns, once each, when the bonus stays negligible or keeps drowning the task's reward."""

    def __init__(self) -> None:
        self.negligible = 0
        self.drowning = 0
        self.signal_seen = False
        self.paid = False

    def observe(self, balance: Balance, *, undecayed: Balance) -> None:
        """Take note of one rollout, as it was paid and as it would have been at the initial weight.

        That the bonus fades by decay is what the user asked for, so it is negligible only if it is so undecayed.
        """
        self.signal_seen |= balance.std_ratio is not None
        # Before the first payment (a warm-up, no completed episode yet) there is nothing to judge.
        self.paid |= undecayed.share > 0
        self.negligible = _advanced(self.negligible, undecayed.negligible and self.paid)
        self.drowning = _advanced(self.drowning, balance.drowning and self.signal_seen)
        if self.negligible == PATIENCE:
            self._warn(
                f"the bonus has been under {NEGLIGIBLE:.0%} of the reward for {PATIENCE} rollouts: it does not steer "
                "the policy. Raise weight, normalise the observations (VecNormalize or normalize_observations=True), "
                "or use normalize='rms'."
            )
        if self.drowning == PATIENCE:
            self._warn(
                f"the bonus has been over {DROWNING_SHARE:.0%} of the reward for {PATIENCE} rollouts: it drowns the "
                "task's reward. Lower weight, raise decay, or use normalize='rms' with a small weight; "
                "extrinsic_weight=0 says that training on the bonus alone is meant."
            )

    @staticmethod
    def _warn(message: str) -> None:
        warnings.warn(message, stacklevel=2)


def _advanced(count: int, holds: bool) -> int:
    """One more rollout in a row, or none; what has reached PATIENCE was warned about and never returns to it."""
    return count + 1 if holds or count >= PATIENCE else 0
