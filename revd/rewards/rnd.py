"""RND: Random Network Distillation (Burda et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from revd.rewards.config import RewardConfig, require
from revd.rewards.distillation import DistillationConfig, DistillationReward
from revd.rewards.metrics import mean_of_steps
from revd.rewards.return_scale import ReturnScale

if TYPE_CHECKING:
    from torch import Tensor

    from revd.rollout import Rollout
    from revd.spaces import Space


@dataclass(frozen=True, kw_only=True)
class RNDConfig(DistillationConfig):
    """Parameters of RND.

    Attributes:
        scale_by_returns: Divide the bonus by the deviation of its discounted sums.
        discount: gamma of these sums.
    """

    scale_by_returns: bool = True
    discount: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.discount < 1, "discount", self.discount, "inside [0, 1)")


class RND(DistillationReward):
    """Pays for states that a network has not learnt to recognise yet: novelty over the whole training.

    ::

        e_t  = || f^(s_{t+1}) - f(s_{t+1}) ||^2 / d
        r^_t = e_t / std(R),        R_t = gamma R_{t-1} + e_t

    f is a frozen random network, `encoder`, and f^ a deeper one, trained to imitate it on the states that were seen.
    Both see observations whitened by running statistics and clipped to +-5. std(R) is the deviation of all discounted
    sums so far, which run over ends of episodes. The mean is not subtracted.

    Metrics: `error` (mean e_t), `bonus_mean`; losses: `predictor_loss`.
    """

    advice = "Hard exploration over many episodes, without noise in the observations."
    config_type: ClassVar[type[RewardConfig]] = RNDConfig
    config: RNDConfig

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        self.return_scale = ReturnScale(n_envs, self.config.discount)

    def bonus(self, rollout: Rollout) -> Tensor:
        """The error of every step's successor over the deviation of the sums."""
        (differences,) = self.differences(rollout, "successors")
        errors = differences.square().mean(dim=-1)
        self.record(error=mean_of_steps(errors, rollout))
        return self.return_scale(errors, rollout) if self.config.scale_by_returns else errors
