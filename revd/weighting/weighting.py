"""How a bonus joins the task's reward: its weight, the balance of the two, and warnings about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from revd.rewards.config import require_number
from revd.weighting.balance import Balance
from revd.weighting.balance_warnings import IN_PYTHON, BalanceWarnings, Remedies, RolloutSize
from revd.weighting.schedule import DecayPer, WeightSchedule

if TYPE_CHECKING:
    from revd.arrays import Array
    from revd.rewards import IntrinsicReward


class Weighting:
    """The weights in r_t = extrinsic_weight * r_t(extrinsic) + lambda_l * r^_t, and a check of their effect.

    The state that a checkpoint saves is the schedule's `rollouts` and `steps`.

    Args:
        weight: See `WeightSchedule`.
        decay: See `WeightSchedule`.
        decay_per: See `WeightSchedule`.
        extrinsic_weight: Factor of the task's own reward.
        remedies: How warnings write the settings that they advise.
    """

    def __init__(
        self,
        *,
        weight: float,
        decay: float,
        decay_per: DecayPer,
        extrinsic_weight: float,
        remedies: Remedies = IN_PYTHON,
    ) -> None:
        self.schedule = WeightSchedule(weight=weight, decay=decay, decay_per=decay_per)
        require_number("extrinsic_weight", extrinsic_weight)
        self.extrinsic_weight = extrinsic_weight
        self.warnings = BalanceWarnings(remedies)

    def check_balance(
        self,
        reward: IntrinsicReward,
        bonus: Array,
        weights: Array,
        extrinsic: Array,
        *,
        task: Array,
        size: RolloutSize,
    ) -> Balance:
        """Compare bonus and extrinsic reward of one rollout, and warn if one has hidden the other for long.

        Args:
            reward: The reward that has just computed the bonus.
            bonus: Unweighted, any shape.
            weights: The weight of each bonus, of the same shape or one that broadcasts to it.
            extrinsic: The unweighted extrinsic reward, of the bonus's shape.
            task: The same before any normalisation.
            size: Steps of the rollout.
        """
        weighted_extrinsic = self.extrinsic_weight * extrinsic
        balance = Balance.compare(weights * bonus, weighted_extrinsic, task=task)
        weight = self.schedule.weight
        if weight > 0 and self.extrinsic_weight > 0:
            undecayed = Balance.compare(np.float64(weight) * bonus, weighted_extrinsic, task=task)
            self.warnings.observe(balance, undecayed=undecayed, size=size)
        eps, duplicates = getattr(reward.config, "eps", None), reward.metrics().get("duplicates")
        merged = getattr(reward.config, "merge_duplicates", False)
        if weight > 0 and eps is not None and duplicates is not None and not merged:
            self.warnings.observe_duplicates(duplicates, eps=eps, size=size)
        return balance
