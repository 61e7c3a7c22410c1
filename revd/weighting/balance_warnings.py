"""Warnings about a bonus that is out of proportion to the task's reward, or has no effect beside it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from revd.weighting.balance import DROWNING_SHARE, NEGLIGIBLE, Balance

#: A condition is worth a warning once it has held for this many rollouts in a row.
WARN_AFTER_ROLLOUTS = 20
#: It is also worth one after this many environment steps, if each environment has made so many of them: with thousands
#: in parallel, a few time steps are only the beginning.
WARN_AFTER_STEPS, WARN_AFTER_STEPS_PER_ENV = 10_000, 200
#: Share of states with an exact copy in their segment above which an eps below LARGE_EPS determines the bonus.
MANY_DUPLICATES, LARGE_EPS = 0.5, 0.1


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """How the advised settings are written where the training was started."""

    weight: str
    strength: str
    decay: str
    normalize_observations: str
    normalize_bonus: str
    bonus_alone: str
    merge_duplicates: str
    eps: str
    re3: str
    act: str


IN_PYTHON = Remedies(
    weight="weight",
    strength="strength",
    decay="decay",
    normalize_observations="VecNormalize or normalize_observations=True",
    normalize_bonus="normalize='rms'",
    bonus_alone="extrinsic_weight=0",
    merge_duplicates="merge_duplicates=True",
    eps="eps=0.1",
    re3="the reward 're3'",
    act="yield_to_task=False",
)
IN_RLLIB = replace(IN_PYTHON, normalize_observations="RLlib's MeanStdFilter or normalize_observations=True")
ON_COMMAND_LINE = Remedies(
    weight="--weight",
    strength="--strength",
    decay="--decay",
    normalize_observations="--normalize observations or --reward-params normalize_observations=True",
    normalize_bonus="--normalize-bonus rms",
    bonus_alone="--extrinsic-weight 0",
    merge_duplicates="--reward-params merge_duplicates=true",
    eps="--reward-params eps=0.1",
    re3="--reward re3",
    act="--no-yield-to-task in a new run",
)


class RolloutSize(NamedTuple):
    """The steps of a rollout: of one environment, and of all together."""

    steps_per_env: int
    steps: int


class Streak:
    """For how long a condition has held without interruption.

    Args:
        warn_after_rollouts: Rollouts after which that is long; enough steps may make it long earlier.
    """

    def __init__(self, warn_after_rollouts: float = WARN_AFTER_ROLLOUTS) -> None:
        self._warn_after_rollouts = warn_after_rollouts
        self._reported = False
        self._reset()

    def _reset(self) -> None:
        self.rollouts = self.steps = self.steps_per_env = 0

    def is_first_long(self, holds: bool, size: RolloutSize) -> bool:
        """Add one rollout; True if the condition has now held for long, for the first time."""
        if not holds:
            self._reset()
            return False
        self.rollouts += 1
        self.steps += size.steps
        self.steps_per_env += size.steps_per_env
        is_long = self.rollouts >= self._warn_after_rollouts or (
            self.steps >= WARN_AFTER_STEPS and self.steps_per_env >= WARN_AFTER_STEPS_PER_ENV
        )
        is_first = is_long and not self._reported
        self._reported |= is_long
        return is_first

    def state(self) -> list[int]:
        """What `restore` needs, for a checkpoint."""
        return [self.rollouts, self.steps, self.steps_per_env, int(self._reported)]

    def restore(self, state: Sequence[int]) -> None:
        """Continue where another one was."""
        self.rollouts, self.steps, self.steps_per_env, reported = map(int, state)
        self._reported = bool(reported)

    def __str__(self) -> str:
        """The length, for a warning."""
        return f"{self.steps:,} steps ({self.rollouts} rollout{'' if self.rollouts == 1 else 's'})"


class BalanceWarnings:
    """Warns, once each, of a bonus that is negligible, drowns the reward or yields to the task, and of duplicates.

    Args:
        remedies: How the advised settings are written.
    """

    def __init__(self, remedies: Remedies = IN_PYTHON) -> None:
        self.remedies = remedies
        self._negligible, self._drowning, self._duplicates, self._yielding = (Streak() for _ in range(4))
        # 20 rollouts of A2C may be a hundred steps, too few to expect the task to pay.
        self._unpaid = Streak(warn_after_rollouts=math.inf)
        self._bonus_seen = False
        self._task_has_paid = False

    def state(self) -> dict[str, list[int]]:
        """What `restore` needs, in JSON's types."""
        streaks = {name: streak.state() for name, streak in self._streaks().items()}
        return {**streaks, "seen": [int(self._bonus_seen), int(self._task_has_paid)]}

    def restore(self, state: Mapping[str, Sequence[int]]) -> None:
        """Continue an earlier training.

        Old files have no state. The task may have paid in their training: no warning says that it has not.
        """
        if not state:
            self._task_has_paid = True
            return
        for name, streak in self._streaks().items():
            if name in state:
                streak.restore(state[name])
        self._bonus_seen, self._task_has_paid = map(bool, state["seen"])

    def _streaks(self) -> dict[str, Streak]:
        return {
            "negligible": self._negligible,
            "drowning": self._drowning,
            "duplicates": self._duplicates,
            "unpaid": self._unpaid,
            "yielding": self._yielding,
        }

    def observe(self, balance: Balance, *, undecayed: Balance, size: RolloutSize) -> None:
        """Add one rollout: its balance as it was paid, and as it would be without decay.

        The user asked for the decay, so the bonus is negligible only if it would be so without it.
        """
        # Before the first bonus (a warm-up, no completed episode yet) there is nothing to judge.
        self._bonus_seen |= undecayed.share > 0
        self._task_has_paid |= balance.pays
        if self._negligible.is_first_long(undecayed.negligible and self._bonus_seen, size):
            self._warn_of_negligible()
        if self._drowning.is_first_long(balance.drowning and self._task_has_paid, size):
            self._warn_of_drowning()
        if self._unpaid.is_first_long(balance.drowning and not self._task_has_paid, size):
            self._warn_of_unpaid()

    def observe_duplicates(self, share: float, *, eps: float, size: RolloutSize) -> None:
        """Add the share of states in one rollout that have an exact copy in their segment."""
        if self._duplicates.is_first_long(share > MANY_DUPLICATES and eps < LARGE_EPS, size):
            self._warn_of_duplicates(share, eps)

    def observe_yielding(self, yields: bool, size: RolloutSize) -> None:
        """Add whether the bonus of one rollout has left the policy to the task."""
        if self._yielding.is_first_long(yields, size):
            _warn(
                f"the task's reward has changed at most steps for {self._yielding}, so the automatic weight leaves the "
                f"policy to the task: the bonus has no effect. To let it act, set {self.remedies.act}."
            )

    def _warn_of_negligible(self) -> None:
        use = self.remedies
        _warn(
            f"the bonus has been under {NEGLIGIBLE:.0%} of the reward for {self._negligible}: it does not "
            f"steer the policy. Raise {use.weight}, normalise the observations ({use.normalize_observations}), or use "
            f"{use.normalize_bonus}."
        )

    def _warn_of_drowning(self) -> None:
        use = self.remedies
        _warn(
            f"the bonus has been over {DROWNING_SHARE:.0%} of the reward for {self._drowning}: it drowns the "
            f"task's reward. Lower {use.weight}, raise {use.decay}, or use {use.normalize_bonus} with a small weight. "
            f"To train on the bonus alone, set {use.bonus_alone}."
        )

    def _warn_of_unpaid(self) -> None:
        use = self.remedies
        _warn(
            f"the task has not paid yet: no reward was above 0 in {self._unpaid}. The bonus is over "
            f"{DROWNING_SHARE:.0%} of the reward, so the policy learns to explore and little else. If the task pays "
            "rarely, the bonus is meant for it, and it may just take more steps. If all its rewards are costs, the "
            f"policy hardly notices them: lower {use.weight}."
        )

    def _warn_of_duplicates(self, share: float, eps: float) -> None:
        use = self.remedies
        _warn(
            f"over {MANY_DUPLICATES:.0%} of the states have had an exact copy in their segment for {self._duplicates}, "
            f"now {share:.0%}: eps = {eps:g} determines their bonus, and standing still may pay most. Use "
            f"{use.merge_duplicates}, a larger eps ({use.eps}) and a lower {use.weight}, or {use.re3}, which divides "
            "by no distance."
        )


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=2)
