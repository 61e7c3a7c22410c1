"""ICM: Intrinsic Curiosity Module (Pathak et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from revd.rewards.config import RewardConfig, require_fraction, require_positive
from revd.rewards.dynamics import DynamicsReward
from revd.rewards.metrics import mean_of_steps
from revd.rewards.trained import TrainedConfig

if TYPE_CHECKING:
    from torch import Tensor

    from revd.rollout import Rollout


@dataclass(frozen=True, kw_only=True)
class ICMConfig(TrainedConfig):
    """Parameters of ICM.

    Attributes:
        eta: Scale of the bonus.
        forward_weight: beta, the forward loss's share of the objective; the inverse loss has the rest.
    """

    update_fraction: float = 0.25
    eta: float = 0.01
    forward_weight: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("eta", self.eta)
        require_fraction("forward_weight", self.forward_weight)


class ICM(DynamicsReward):
    """Pays for transitions that a model fails to predict, in an embedding of what the agent's actions change.

    ::

        r^_t = eta / 2 || g(phi(s_t), a_t) - phi(s_{t+1}) ||^2
        L    = (1 - beta) L_I + beta L_F,       L_F = 1/2 || g(phi(s_t), a_t) - phi(s_{t+1}) ||^2

    L_I is the loss of an inverse model that guesses a_t from phi(s_t) and phi(s_{t+1}): cross-entropy, or the squared
    error for continuous actions. L trains phi, the forward model g and the inverse model.

    Metrics: `error` (mean L_F), `bonus_mean`; losses: `forward_loss` (L_F), `inverse_loss` (L_I).
    """

    advice = "Worlds that take time to predict; learns to leave out noise."
    config_type: ClassVar[type[RewardConfig]] = ICMConfig
    config: ICMConfig
    uses_forward_model = True

    def bonus(self, rollout: Rollout) -> Tensor:
        """Eta times half the squared error of the forward model."""
        phi, phi_next = self.embed_transitions(rollout)
        errors = self.forward_errors(phi, self.action_vectors(rollout), phi_next).square().sum(dim=-1) / 2
        self.record(error=mean_of_steps(errors, rollout))
        return self.config.eta * errors

    def forward_loss(self, errors: Tensor) -> Tensor:
        """L_F: half the mean squared length of the errors."""
        return errors.square().sum(dim=-1).mean() / 2

    def objective(self, losses: dict[str, Tensor]) -> Tensor:
        """L, the weighted sum of both losses."""
        beta = self.config.forward_weight
        return (1 - beta) * losses["inverse_loss"] + beta * losses["forward_loss"]
