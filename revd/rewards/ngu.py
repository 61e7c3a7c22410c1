"""NGU: Never Give Up (Badia et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from revd.encoders import make_encoder
from revd.functional import kernel_sums
from revd.moments import RunningMoments
from revd.rewards.config import LARGEST, RewardConfig, require, require_positive
from revd.rewards.distillation import make_predictor
from revd.rewards.episodic import EpisodicConfig, EpisodicReward
from revd.rewards.metrics import mean_of_steps

if TYPE_CHECKING:
    from revd.rewards.trained import Minibatch
    from revd.rollout import Observations, Rollout


@dataclass(frozen=True, kw_only=True)
class NGUConfig(EpisodicConfig):
    """Parameters of Never Give Up.

    Attributes:
        largest_modulator: L, the largest factor for states that are new in the whole training.
    """

    update_fraction: float = 0.25
    largest_modulator: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("c", self.c)
        largest = self.largest_modulator
        require(1 <= largest <= LARGEST, "largest_modulator", largest, f"a number from 1 to {LARGEST:g}")


class NGU(EpisodicReward):
    """Pays each state for being new in its episode, more if it is new in the whole training.

    ::

        r^_t = r_ep(s_t) * min( max(alpha(s_t), 1), L )
        r_ep(s) = 1 / ( sqrt( sum_i K(phi(s), phi(s_i)) ) + c ),      0 where the denominator exceeds s_max
        alpha(s) = 1 + (err(s) - mu_err) / sigma_err,      err(s) = || g^(s) - g(s) ||^2

    K is the kernel of `revd.functional.kernel_sums` over the k nearest states s_i of the same true episode before s_t,
    those of earlier rollouts included. The first state of an episode has none and is paid 0. phi is trained by an
    inverse model p(a | phi, phi'). err is RND's: g is a random network, g^ a predictor trained on the same states, both
    on observations whitened by running statistics. mu_err and sigma_err are those of all states so far.

    Metrics: `episodic` (mean r_ep), `modulator` (mean clipped alpha), `bonus_mean`; losses: `inverse_loss`,
    `predictor_loss`.
    """

    advice = "Long, hard exploration, or episodes that differ; not the cheapest."
    config_type: ClassVar[type[RewardConfig]] = NGUConfig
    config: NGUConfig

    def build(self, generator: torch.Generator) -> None:
        """Make the inverse model, and RND's target and predictor."""
        super().build(generator)
        seed = int(torch.randint(2**62, (), generator=generator, device="cpu"))
        size = self.config.embedding_size
        self.target = make_encoder(
            self.observation_space, embedding_size=size, seed=seed, normalize=True, warmup=1, running=True
        )
        self.predictor = make_predictor(self.observation_space, size, generator)
        self.error_moments = RunningMoments()

    def bonus(self, rollout: Rollout) -> Tensor:
        """r_ep * min(max(alpha, 1), L)."""
        phi = self.embed(rollout, rollout.observations)
        distances = self.earlier_distances(phi, phi, rollout, seen=0)
        root = kernel_sums(distances, self.mean_square, **self.kernel).sqrt() + self.config.c
        paid = (distances[..., 0] < torch.inf) & (root <= self.config.s_max)
        episodic = torch.where(paid, 1 / root, 0.0)
        modulator = self._modulator(rollout)
        self.record(episodic=mean_of_steps(episodic, rollout), modulator=mean_of_steps(modulator, rollout))
        return episodic * modulator

    def losses(self, batch: Minibatch) -> dict[str, Tensor]:
        """The losses of the inverse model and of the predictor."""
        (errors,) = batch.evaluate(self._errors, "observations")
        return {**super().losses(batch), "predictor_loss": errors.mean()}

    def _modulator(self, rollout: Rollout) -> Tensor:
        """Alpha within 1 and L, (n_steps, n_envs)."""
        self.target.warm_up(*rollout.states.counted())
        (errors,) = rollout.evaluate(self._errors, "observations")
        errors = errors.double()
        self.error_moments.update(errors[rollout.valid_on(errors.device)])
        mean, std = self.error_moments.mean, self.error_moments.std
        # A constant error varies by rounding only, which is no novelty.
        scaled = torch.where(std > 1e-6 * mean, (errors - mean) / std, 0.0)
        return (1 + scaled).clamp(1, self.config.largest_modulator).float()

    def _errors(self, observations: Observations) -> Tensor:
        """The predictor's mean squared error on observations, (n,)."""
        with torch.no_grad():
            target: Tensor = self.target(observations)
        predicted: Tensor = self.predictor(observations, normalized_by=self.target)
        errors: Tensor = (predicted - target).square().mean(dim=-1)
        return errors
