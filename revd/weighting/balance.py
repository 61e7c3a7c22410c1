"""How the bonus stands against the task's own reward, and warnings where that is no good."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

#: What holds for so many rollouts in a row is worth a warning, and so is what holds for so many environment steps, if
#: each environment has made so many of them: of thousands in parallel, a few steps are but the beginning.
PATIENCE_ROLLOUTS, PATIENCE_STEPS, PATIENCE_DEPTH = 20, 10_000, 200
#: Share of the reward and ratio of standard deviations under which the bonus is negligible.
NEGLIGIBLE = 0.01
#: Share of the reward and ratio of standard deviations over which the bonus drowns the task's reward.
DROWNING_SHARE, DROWNING_RATIO = 0.9, 3.0
#: Share of states with an exact copy in their segment over which a smaller eps than this one decides what is paid.
MANY_DUPLICATES, LARGE_EPS = 0.5, 0.1


@dataclass(frozen=True, kw_only=True)
class Remedies:
    """How the settings that warnings advise are written where the training was started."""

    weight: str
    decay: str
    normalize_observations: str
    normalize_bonus: str
    bonus_alone: str
    eps: str
    re3: str


IN_PYTHON = Remedies(
    weight="weight",
    decay="decay",
    normalize_observations="VecNormalize or normalize_observations=True",
    normalize_bonus="normalize='rms'",
    bonus_alone="extrinsic_weight=0",
    eps="eps=0.1",
    re3="the reward 're3'",
)
ON_COMMAND_LINE = Remedies(
    weight="--weight",
    decay="--decay",
    normalize_observations="--normalize observations or --reward-params normalize_observations=True",
    normalize_bonus="--normalize-bonus rms",
    bonus_alone="--extrinsic-weight 0",
    eps="--reward-params eps=0.1",
    re3="--reward re3",
)


@dataclass(frozen=True)
class Balance:
    """The weighted bonus of one rollout against the weighted extrinsic reward.

    Attributes:
        share: The bonus's part of the total absolute reward, 0 if both are 0.
        std_ratio: Ratio of the standard deviations, None where the extrinsic reward does not vary: a constant -1 a step
            is large, yet carries no signal.
        pays: Whether the task has paid anything, that is a reward above 0.
    """

    share: float
    std_ratio: float | None
    pays: bool

    @classmethod
    def of(cls, bonus: Array, extrinsic: Array, *, task: Array) -> Balance:
        """Compare two arrays of weighted rewards, (n_steps, n_envs); `task` is the task's reward as the task gave it.

        A normalisation between the two may drift, so that a constant reward seems to vary.
        """
        # In 64 bits: the sum of rewards that float32 can just hold is one that it cannot.
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
        """The bonus is too small to matter."""
        return self.share < NEGLIGIBLE and (self.std_ratio is None or self.std_ratio < NEGLIGIBLE)

    @property
    def drowning(self) -> bool:
        """The bonus hides the task's reward."""
        return self.share > DROWNING_SHARE and (self.std_ratio is None or self.std_ratio > DROWNING_RATIO)


class Streak:
    """For how long something has held without interruption.

    Args:
        patience_rollouts: Rollouts after which that is long; by its steps it may be long before.
    """

    def __init__(self, patience_rollouts: float = PATIENCE_ROLLOUTS) -> None:
        self._patience_rollouts = patience_rollouts
        self._ended = False
        self._start()

    def _start(self) -> None:
        self.rollouts = self.steps = self.depth = 0

    def grows_long(self, holds: bool, shape: tuple[int, int]) -> bool:
        """Take note of one more rollout, (n_steps, n_envs); True when it has held for long, the first time."""
        if not holds:
            self._start()
            return False
        n_steps, n_envs = shape
        self.rollouts, self.steps, self.depth = self.rollouts + 1, self.steps + n_steps * n_envs, self.depth + n_steps
        is_long = self.rollouts >= self._patience_rollouts or (
            self.steps >= PATIENCE_STEPS and self.depth >= PATIENCE_DEPTH
        )
        is_first = is_long and not self._ended
        self._ended |= is_long
        return is_first

    def __str__(self) -> str:
        """How long, for a warning."""
        return f"{self.steps:,} steps ({self.rollouts} rollout{'' if self.rollouts == 1 else 's'})"


class BalanceWatch:
    """Warns, once each, of a bonus that is negligible, of one that is nearly all there is, and of duplicates.

    Args:
        remedies: The names of what is advised.
    """

    def __init__(self, remedies: Remedies = IN_PYTHON) -> None:
        self.remedies = remedies
        self._negligible, self._drowning, self._crowded = (Streak() for _ in range(3))
        # A hundred steps without pay, as 20 rollouts of A2C may be, are nothing to speak of.
        self._unpaid = Streak(patience_rollouts=math.inf)
        self._bonus_seen = False
        self._task_has_paid = False

    def observe(self, balance: Balance, *, undecayed: Balance, shape: tuple[int, int]) -> None:
        """Take note of one rollout, (n_steps, n_envs), as it was paid and as it would be without decay.

        That the bonus fades by decay is what the user asked for, so it is negligible only if it is so undecayed.
        """
        # Before the first payment (a warm-up, no completed episode yet) there is nothing to judge.
        self._bonus_seen |= undecayed.share > 0
        self._task_has_paid |= balance.pays
        if self._negligible.grows_long(undecayed.negligible and self._bonus_seen, shape):
            self._warn_of_negligible()
        if self._drowning.grows_long(balance.drowning and self._task_has_paid, shape):
            self._warn_of_drowning()
        if self._unpaid.grows_long(balance.drowning and not self._task_has_paid, shape):
            self._warn_of_unpaid()

    def observe_duplicates(self, share: float, *, eps: float, shape: tuple[int, int]) -> None:
        """Take note of the share of states in one rollout that have an exact copy in their segment."""
        if self._crowded.grows_long(share > MANY_DUPLICATES and eps < LARGE_EPS, shape):
            self._warn_of_duplicates(share, eps)

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
            f"task's reward. Lower {use.weight}, raise {use.decay}, or use {use.normalize_bonus} with a small weight; "
            f"{use.bonus_alone} says that training on the bonus alone is meant."
        )

    def _warn_of_unpaid(self) -> None:
        use = self.remedies
        _warn(
            f"the task has not paid yet: no reward was above 0 in {self._unpaid}, and the bonus is over "
            f"{DROWNING_SHARE:.0%} of the reward, so that the policy learns to explore and little else. If the task "
            "pays rarely, that is what the bonus is for, and it may just take more steps. If all its rewards are "
            f"costs, the policy hardly notices them: lower {use.weight}."
        )

    def _warn_of_duplicates(self, share: float, eps: float) -> None:
        use = self.remedies
        _warn(
            f"over {MANY_DUPLICATES:.0%} of the states have had an exact copy in their segment for {self._crowded}, "
            f"now {share:.0%}: eps = {eps:g} decides what these are paid, and standing still may pay most. Use a "
            f"larger eps ({use.eps}) and a lower {use.weight}, or {use.re3}, which pays nothing for copies."
        )


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=2)
