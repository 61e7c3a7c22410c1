"""The weighted bonus of a rollout compared with the task's reward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from revd.arrays import Array

#: Share of the reward and ratio of standard deviations below which the bonus is negligible.
NEGLIGIBLE = 0.01
#: Share of the reward and ratio of standard deviations above which the bonus drowns the task's reward.
DROWNING_SHARE, DROWNING_RATIO = 0.9, 3.0


@dataclass(frozen=True)
class Balance:
    """The weighted bonus of one rollout compared with the weighted extrinsic reward.

    Attributes:
        share: The bonus's part of the total absolute reward, 0 if both are 0.
        std_ratio: Ratio of the standard deviations, None if the extrinsic reward does not vary: a constant -1 per step
            is large but carries no signal.
        pays: Whether the task has paid anything, that is a reward above 0.
    """

    share: float
    std_ratio: float | None
    pays: bool

    @classmethod
    def compare(cls, bonus: Array, extrinsic: Array, *, task: Array) -> Balance:
        """Compare two arrays of weighted rewards; `task` is the task's reward before any normalisation.

        A normalisation may drift, so that a constant reward seems to vary.
        """
        # In 64 bits, since the sum of large rewards overflows float32.
        bonus, extrinsic = bonus.astype(np.float64), extrinsic.astype(np.float64)
        paid, earned = float(np.abs(bonus).sum()), float(np.abs(extrinsic).sum())
        spread = float(extrinsic.std())
        varies = bool((task != task.flat[0]).any())
        return cls(
            share=paid / (paid + earned) if paid + earned > 0 else 0.0,
            std_ratio=float(bonus.std()) / spread if varies and spread > 0 else None,
            pays=bool((task > 0).any()),
        )

    @property
    def negligible(self) -> bool:
        """Whether the bonus is too small to matter."""
        return self.share < NEGLIGIBLE and (self.std_ratio is None or self.std_ratio < NEGLIGIBLE)

    @property
    def drowning(self) -> bool:
        """Whether the bonus hides the task's reward."""
        return self.share > DROWNING_SHARE and (self.std_ratio is None or self.std_ratio > DROWNING_RATIO)
