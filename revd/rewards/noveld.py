"""NovelD: A Simple yet Effective Exploration Criterion (Zhang et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from revd.rewards.config import LARGEST, RewardConfig, require
from revd.rewards.distillation import DistillationConfig, DistillationReward
from revd.rewards.metrics import mean_of_steps
from revd.rewards.visits import EpisodeVisits, state_keys

if TYPE_CHECKING:
    from revd.rollout import Rollout
    from revd.spaces import Space

#: States of running episodes kept from rollout to rollout; those visited longest ago are forgotten first.
MEMORY_SIZE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class NovelDConfig(DistillationConfig):
    """Parameters of NovelD.

    Attributes:
        alpha: The share of the novelty before the step that is subtracted.
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.alpha <= LARGEST, "alpha", self.alpha, f"a number from 0 to {LARGEST:g}")


class NovelD(DistillationReward):
    """Pays each step for crossing the border of the explored states, once in an episode.

    ::

        r^_t = max( n(s_{t+1}) - alpha * n(s_t), 0 ) * [ N_ep(s_{t+1}) = 1 ]
        n(s) = || f^(s) - f(s) ||_2

    n is RND's error, not squared: f is a random network, here `encoder`, and f^ the predictor. N_ep counts the visits
    of exactly equal observations in the true episode, the first state and earlier rollouts included.

    Metrics: `novelty` (mean n(s_{t+1})), `first_visits` (share of the steps that reach a new state of their episode),
    `bonus_mean`; losses: `predictor_loss`.
    """

    advice = "Corridors, rooms and doors whose observations repeat exactly."
    config_type: ClassVar[type[RewardConfig]] = NovelDConfig
    config: NovelDConfig

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        self.visits = EpisodeVisits(n_envs, MEMORY_SIZE)

    def end_episodes(self) -> None:
        """Forget which states the running episodes have visited."""
        self.visits.end_episodes()

    def bonus(self, rollout: Rollout) -> Tensor:
        """max(n(s') - alpha n(s), 0) where s' is visited for the first time."""
        before, after = self.differences(rollout, "observations", "successors")
        novelty, novelty_next = before.norm(dim=-1), after.norm(dim=-1)
        first = self._first_visits(rollout)
        self.record(novelty=mean_of_steps(novelty_next, rollout), first_visits=mean_of_steps(first, rollout))
        gain: Tensor = (novelty_next - self.config.alpha * novelty).clamp(min=0)
        return gain * first

    def _first_visits(self, rollout: Rollout) -> Tensor:
        """1 where s_{t+1} was not visited before in its episode, else 0, (n_steps, n_envs)."""
        # s_{t+1} is visited twice, as successor of s_t and as the next state: only the former can be the first.
        keys = rollout.states.evaluate(partial(state_keys, self.observation_space), "observations", "successors")
        counts = self.visits.add(torch.stack(keys, dim=1).to(self.device), rollout)[:, 1]
        return rollout.unflatten((counts == 1).float())
