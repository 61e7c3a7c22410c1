"""SB3's objectives of PPO and A2C, computed on the device without reading any number back to the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import torch
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch import Tensor
from torch.nn import functional


class ActionEvaluation(NamedTuple):
    """The current policy's evaluation of a minibatch of n steps.

    Attributes:
        values: (n,).
        log_prob: Of the actions taken, (n,).
        entropy: (n,), or None if the distribution has no formula for it.
    """

    values: Tensor
    log_prob: Tensor
    entropy: Tensor | None

    def entropy_loss(self) -> Tensor:
        """Return the negative mean entropy, estimated from the actions taken if it has no formula."""
        return -torch.mean(-self.log_prob if self.entropy is None else self.entropy)


class Objective(Protocol):
    """A loss and the statistics that it reports.

    Attributes:
        coefficients: Names of the numbers that may change between updates.
        statistics: Names of the numbers reported.
    """

    coefficients: ClassVar[tuple[str, ...]]
    statistics: ClassVar[tuple[str, ...]]

    def __call__(
        self, evaluation: ActionEvaluation, samples: RolloutBufferSamples, coefficients: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the loss, (), and the statistics, (len(self.statistics),)."""


@dataclass(frozen=True)
class PPOObjective:
    """Clipped surrogate, squared error of the value, entropy.

    Schulman et al. 2017, with SB3's clipping of values.

    Attributes:
        normalize_advantage: Standardise the advantages of each minibatch.
        clip_values: Keep each value within `clip_range_vf` of the old one.
    """

    normalize_advantage: bool
    clip_values: bool

    coefficients: ClassVar[tuple[str, ...]] = ("low", "high", "clip_range", "clip_range_vf", "ent_coef", "vf_coef")
    statistics: ClassVar[tuple[str, ...]] = (
        "entropy_loss",
        "policy_gradient_loss",
        "value_loss",
        "approx_kl",
        "clip_fraction",
        "loss",
    )

    def __call__(
        self, evaluation: ActionEvaluation, samples: RolloutBufferSamples, coefficients: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the loss and the statistics; `low` and `high` are 1 -+ clip_range."""
        low, high, clip_range, clip_range_vf, ent_coef, vf_coef = coefficients.unbind()
        # A minibatch of one has no standard deviation.
        normalize = self.normalize_advantage and len(samples.advantages) > 1
        advantages = standardized(samples.advantages) if normalize else samples.advantages
        log_ratio = evaluation.log_prob - samples.old_log_prob
        ratio = torch.exp(log_ratio)
        policy_loss = -torch.min(advantages * ratio, advantages * torch.clamp(ratio, low, high)).mean()
        values = evaluation.values
        if self.clip_values:
            values = samples.old_values + torch.clamp(values - samples.old_values, -clip_range_vf, clip_range_vf)
        value_loss = functional.mse_loss(samples.returns, values)
        entropy_loss = evaluation.entropy_loss()
        loss = policy_loss + ent_coef * entropy_loss + vf_coef * value_loss
        with torch.no_grad():
            excess = ratio - 1
            # An unbiased estimate of the reverse KL divergence that is never negative: joschu.net/blog/kl-approx.html
            approx_kl = torch.mean(excess - log_ratio)
            clip_fraction = torch.mean((torch.abs(excess) > clip_range).float())
            statistics = torch.stack((entropy_loss, policy_loss, value_loss, approx_kl, clip_fraction, loss))
        return loss, statistics


@dataclass(frozen=True)
class A2CObjective:
    """Policy gradient, squared error of the value, entropy: Mnih et al. 2016.

    Attributes:
        normalize_advantage: Standardise the advantages of the rollout.
    """

    normalize_advantage: bool

    coefficients: ClassVar[tuple[str, ...]] = ("ent_coef", "vf_coef")
    statistics: ClassVar[tuple[str, ...]] = ("entropy_loss", "policy_loss", "value_loss")

    def __call__(
        self, evaluation: ActionEvaluation, samples: RolloutBufferSamples, coefficients: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the loss and the statistics."""
        ent_coef, vf_coef = coefficients.unbind()
        advantages = standardized(samples.advantages) if self.normalize_advantage else samples.advantages
        policy_loss = -(advantages * evaluation.log_prob).mean()
        value_loss = functional.mse_loss(samples.returns, evaluation.values)
        entropy_loss = evaluation.entropy_loss()
        loss = policy_loss + ent_coef * entropy_loss + vf_coef * value_loss
        return loss, torch.stack((entropy_loss, policy_loss, value_loss)).detach()


def standardized(advantages: Tensor) -> Tensor:
    """Shift and scale advantages (n,) to mean 0 and standard deviation 1."""
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)


def explained_variance(values: Tensor, returns: Tensor) -> Tensor:
    """Return 1 - Var[returns - values] / Var[returns], (); NaN if the returns do not vary."""
    variance = returns.var(correction=0)
    return torch.where(variance == 0, torch.nan, 1 - (returns - values).var(correction=0) / variance)
