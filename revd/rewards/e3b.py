"""E3B: Exploration via Elliptical Episodic Bonuses (Henaff et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from revd.functional import elliptical_bonuses
from revd.rewards.config import RewardConfig, require_positive
from revd.rewards.dynamics import DynamicsReward
from revd.rewards.metrics import mean_of_steps
from revd.rewards.return_scale import ReturnScale
from revd.rewards.trained import TrainedConfig

if TYPE_CHECKING:
    from revd.rollout import Rollout
    from revd.spaces import Space


@dataclass(frozen=True, kw_only=True)
class E3BConfig(TrainedConfig):
    """Parameters of E3B.

    Attributes:
        ridge: lambda: C is lambda I at the start of an episode.
        scale_by_deviation: Divide the bonus by its running standard deviation, as the paper does.
    """

    ridge: float = 0.1
    scale_by_deviation: bool = True
    update_fraction: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("ridge", self.ridge)


class E3B(DynamicsReward):
    """Pays each state for how new the direction of its embedding is in its episode.

    ::

        r^_t = phi(s_t)^T C_t^-1 phi(s_t),      C_t = lambda I + sum_{i < t} phi(s_i) phi(s_i)^T

    The sum runs over the states of the same true episode before s_t, those of earlier rollouts included, as they were
    embedded when they were visited. Where states are discrete and phi is one-hot, r^_t is 1 / (lambda + n_ep(s_t)) with
    the earlier visits n_ep. phi is trained by an inverse model p(a | phi, phi').

    With `scale_by_deviation` r^ is divided by its standard deviation over all steps so far.

    Metrics: `elliptical` (mean r^ before the division), `bonus_mean`; losses: `inverse_loss`.
    """

    advice = "Another map in each episode, many features that actions do not change."
    config_type: ClassVar[type[RewardConfig]] = E3BConfig
    config: E3BConfig
    inverse: Tensor

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        size = self.encoder.embedding_size
        # C^-1 of each environment's running episode.
        self.register_buffer("inverse", torch.zeros(n_envs, size, size, dtype=torch.float64))
        self.end_episodes()
        # A discount of 0 makes the sums the bonuses themselves.
        self.deviation = ReturnScale(n_envs, gamma=0.0) if self.config.scale_by_deviation else None

    def end_episodes(self) -> None:
        """Set C to lambda I in all environments."""
        self.inverse.zero_().diagonal(dim1=1, dim2=2).fill_(1 / self.config.ridge)

    def bonus(self, rollout: Rollout) -> Tensor:
        """phi^T C^-1 phi."""
        phi = self.embed(rollout, rollout.observations)
        ended = rollout.dones.to(self.device) & rollout.valid_on(self.device)
        bonus, inverse = elliptical_bonuses(phi, ended, self.inverse, ridge=self.config.ridge)
        self.inverse.copy_(inverse)
        self.record(elliptical=mean_of_steps(bonus, rollout))
        scaled: Tensor = bonus if self.deviation is None else self.deviation(bonus, rollout)
        return scaled.float()
