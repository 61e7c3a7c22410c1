"""How a bonus joins the task's reward: its weight, the balance of the two, and warnings about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from revd.rewards.config import require_number
from revd.rewards.saved_state import load_whole_state
from revd.weighting.automatic import AutomaticWeight
from revd.weighting.balance import Balance
from revd.weighting.balance_warnings import IN_PYTHON, BalanceWarnings, Remedies, RolloutSize
from revd.weighting.reward_density import RewardDensity
from revd.weighting.schedule import DecayPer, WeightSchedule

if TYPE_CHECKING:
    from torch import Tensor

    from revd.arrays import Array
    from revd.rewards import IntrinsicReward


#: A fixed weight, or one that follows from the data.
Weight: TypeAlias = "float | Literal['auto']"
#: The strength of a bonus with an automatic weight.
STRENGTH = 0.1


class Weighting:
    """How the bonus is weighed against the task's reward, and a check of the effect.

    With a number, r_t = extrinsic_weight * r_t(extrinsic) + lambda_l * r^_t. With "auto", the bonus joins the
    advantages instead (`AutomaticWeight`), and lambda_l is its strength.

    Args:
        weight: lambda_0, or "auto".
        strength: lambda_0 with "auto": how strong the bonus is in the advantages, relative to the task.
        yield_to_task: With "auto", whether the bonus leaves the policy to a task whose reward is dense.
        decay: See `WeightSchedule`.
        decay_per: See `WeightSchedule`.
        extrinsic_weight: Factor of the task's own reward.
        remedies: How warnings write the settings that they advise.
    """

    def __init__(
        self,
        *,
        weight: Weight,
        strength: float = STRENGTH,
        yield_to_task: bool = True,
        decay: float,
        decay_per: DecayPer,
        extrinsic_weight: float,
        remedies: Remedies = IN_PYTHON,
    ) -> None:
        self.is_automatic = isinstance(weight, str) and weight == "auto"
        if not self.is_automatic:
            require_number("weight", weight, "'auto' or a number of at least 0")
        require_number("strength", strength)
        if not self.is_automatic and strength != STRENGTH:
            raise ValueError(f"strength = {strength:g} belongs to weight='auto', but weight is {weight}: leave one out")
        self.schedule = WeightSchedule(
            weight=strength if isinstance(weight, str) else weight, decay=decay, decay_per=decay_per
        )
        _check_yielding(yield_to_task, is_automatic=self.is_automatic)
        self._yield_to_task = yield_to_task
        self.automatic: AutomaticWeight | None = None
        require_number("extrinsic_weight", extrinsic_weight)
        self.extrinsic_weight = extrinsic_weight
        self.advise_with(remedies)

    @property
    def yield_to_task(self) -> bool:
        """With an automatic weight, whether the bonus leaves the policy to a task whose reward is dense."""
        return self._yield_to_task

    @yield_to_task.setter
    def yield_to_task(self, value: bool) -> None:
        _check_yielding(value, is_automatic=self.is_automatic)
        self._yield_to_task = value
        if self.automatic is not None:
            self.automatic.yield_to_task = value

    def advise_with(self, remedies: Remedies) -> None:
        """Begin the warnings anew; they write the settings that they advise in this way."""
        if self.is_automatic:
            remedies = replace(remedies, weight=remedies.strength)
        self.warnings = BalanceWarnings(remedies)

    def attach(self, reward: IntrinsicReward, *, anew: bool = False) -> None:
        """Make the automatic weight for a reward, unless there is one, or `anew`; nothing for a fixed weight."""
        if self.is_automatic and (anew or self.automatic is None):
            self.automatic = AutomaticWeight(reward, yield_to_task=self._yield_to_task).to(reward.device)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What `restore` needs: the tensors of an automatic weight, and counts in JSON's types."""
        tensors = {} if self.automatic is None else self.automatic.state_dict()
        schedule = self.schedule
        return tensors, {"rollouts": schedule.rollouts, "steps": schedule.steps, "warnings": self.warnings.state()}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Restore a state of `state`, after `attach`. That of a fixed weight has no tensors."""
        if self.automatic is not None and tensors:
            tensors = _with_density(tensors, self.automatic)
            load_whole_state(self.automatic, tensors, "the saved automatic weight does not fit this reward")
        self.schedule.rollouts, self.schedule.steps = int(values["rollouts"]), int(values["steps"])
        self.warnings.restore(values.get("warnings") or {})

    def end_episodes(self) -> None:
        """End the running episodes, because all environments were reset from outside."""
        if self.automatic is not None:
            self.automatic.end_episodes()

    def check_rollout(self, reward: IntrinsicReward, size: RolloutSize) -> None:
        """Warn if many states have been exact duplicates for long, or if the bonus has yielded to the task for long.

        After the reward has computed a bonus.
        """
        yields = self.automatic is not None and self.automatic.yields and self.extrinsic_weight > 0
        if self.schedule.weight > 0:
            self.warnings.observe_yielding(yields, size)
        eps, duplicates = getattr(reward.config, "eps", None), reward.metrics().get("duplicates")
        merged = getattr(reward.config, "merge_duplicates", False)
        if self.schedule.weight > 0 and not yields and eps is not None and duplicates is not None and not merged:
            self.warnings.observe_duplicates(duplicates, eps=eps, size=size)

    def check_balance(
        self,
        bonus: Array,
        weights: Array,
        extrinsic: Array,
        *,
        task: Array,
        size: RolloutSize,
    ) -> Balance:
        """Compare bonus and extrinsic reward of one rollout, and warn if one has hidden the other for long.

        Args:
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
        return balance


def _check_yielding(value: object, *, is_automatic: bool) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"yield_to_task must be True or False, got {value!r}")
    if not (is_automatic or value):
        raise ValueError("yield_to_task belongs to weight='auto', but weight is a number: leave one out")


def _with_density(tensors: Mapping[str, Tensor], automatic: AutomaticWeight) -> Mapping[str, Tensor]:
    """The tensors of an automatic weight, also if they are from before it watched how dense the reward is."""
    if any(name.startswith("reward_density.") for name in tensors):
        return tensors
    return {**tensors, **RewardDensity(len(automatic.reward_density.last_rewards)).state_dict(prefix="reward_density.")}
