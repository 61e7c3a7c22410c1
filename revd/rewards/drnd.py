"""DRND: Exploration by Distributional Random Network Distillation (Yang et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch import Tensor, nn

from revd.encoders import make_encoder
from revd.rewards.config import RewardConfig, require_fraction, require_integer
from revd.rewards.distillation import DistillationConfig, DistillationReward
from revd.rewards.embedding import check_magnitude
from revd.rewards.metrics import mean_of_steps
from revd.rollout import map_observations

if TYPE_CHECKING:
    from revd.encoders import Encoder
    from revd.rewards.trained import Minibatch
    from revd.rollout import Observations, Rollout

#: The most target networks.
LARGEST_TARGETS = 1_000


@dataclass(frozen=True, kw_only=True)
class DRNDConfig(DistillationConfig):
    """Parameters of DRND.

    Attributes:
        n_targets: N, the number of random networks.
        alpha: Weight of the first term; 1 - alpha is that of the second.
    """

    n_targets: int = 5
    alpha: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("n_targets", self.n_targets, minimum=2, maximum=LARGEST_TARGETS)
        require_fraction("alpha", self.alpha)


class DRND(DistillationReward):
    """Pays each successor by the error of a predictor of several random networks, and by an estimate of its visits.

    With the mean mu and the second moment B of the N frozen networks' outputs c_i(s), all for each number of d::

        r^_t = alpha * mean_d (f^ - mu)^2 + (1 - alpha) * mean_d sqrt( (f^2 - mu^2) / (B - mu^2) ),     at s_{t+1}

    The predictor f^ is trained on the output of one network, drawn at random for each transition, so that after n
    visits of a state f^ is about the mean of n draws. The fraction then is about 1 / n. It is clipped to [0, 1]. The
    first of the networks is `encoder`.

    Metrics: `error` (mean of the first term without alpha), `rarity` (mean of the second without 1 - alpha),
    `bonus_mean`; losses: `predictor_loss`.
    """

    advice = "As RND, where its bonus fades unevenly; more networks to run."
    config_type: ClassVar[type[RewardConfig]] = DRNDConfig
    config: DRNDConfig

    def build(self, generator: torch.Generator) -> None:
        """Make the predictor and the other targets."""
        super().build(generator)
        seeds = torch.randint(2**62, (self.config.n_targets - 1,), generator=generator, device="cpu").tolist()
        size = self.config.embedding_size
        targets = (make_encoder(self.observation_space, embedding_size=size, seed=seed) for seed in seeds)
        self.other_targets = nn.ModuleList(targets)

    def bonus(self, rollout: Rollout) -> Tensor:
        """Both terms on the successors."""
        (terms,) = rollout.evaluate(self._terms, "successors")
        error, rarity = terms.unbind(dim=-1)
        self.record(error=mean_of_steps(error, rollout), rarity=mean_of_steps(rarity, rollout))
        return self.config.alpha * error + (1 - self.config.alpha) * rarity

    def losses(self, batch: Minibatch) -> dict[str, Tensor]:
        """The mean squared error against a random target for each transition."""
        successors = batch.successors
        drawn = torch.randint(self.config.n_targets, (len(batch),), generator=batch.generator, device="cpu")
        predicted = self.predict(successors)
        target = torch.empty_like(predicted)
        with torch.no_grad():
            for index in range(self.config.n_targets):
                rows = (drawn == index).nonzero()[:, 0]
                if len(rows) > 0:
                    target[rows.to(target.device)] = self._target(index, _select(successors, rows))
        return {"predictor_loss": (predicted - target).square().mean()}

    def _terms(self, observations: Observations) -> Tensor:
        """Both terms without their weights, (n, 2)."""
        networks = [self.encoder, *self.other_targets, self.predictor]
        embedded = self.encoder.embed_by_each(cast("list[Encoder]", networks), observations)
        *targets, predicted = (each.float() for each in embedded)
        mean = torch.stack(targets).mean(dim=0)
        # B - mu^2 is the variance, which is computed without the cancellation; `var` takes ten times as long.
        variance = torch.stack([(target - mean).square_() for target in targets]).mean(dim=0)
        check_magnitude(predicted[:, None])
        error = (predicted - mean).square().mean(dim=-1)
        fraction = torch.where(variance > 0, (predicted.square() - mean.square()) / variance, 0.0)
        return torch.stack([error, fraction.clamp(0, 1).sqrt().mean(dim=-1)], dim=-1)

    def _target(self, index: int, observations: Observations) -> Tensor:
        """c_i of whitened observations, (n, d)."""
        network = self.encoder if index == 0 else self.other_targets[index - 1]
        embedded: Tensor = network(observations, normalized_by=self.encoder)
        return embedded.float()


def _select(observations: Observations, rows: Tensor) -> Observations:
    return map_observations(lambda values: values[rows.to(values.device)], observations)
