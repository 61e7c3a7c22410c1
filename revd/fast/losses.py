"""The objectives of PPO and A2C as SB3 defines them, without a look at any number: everything stays on the device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import torch
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch import Tensor
from torch.nn import functional


class Evaluation(NamedTuple):
    """What the policy says today about the steps of a minibatch of n.

    Attributes:
        values: (n,).
        log_prob: Of the actions taken, (n,).
        entropy: (n,), or None where the distribution has no formula for it.
    """

    values: Tensor
    log_prob: Tensor
    entropy: Tensor | None

    def entropy_loss(self) -> Tensor:
        """The negative mean entropy, or its estimate from the actions taken."""
        return -torch.mean(-self.log_prob if self.entropy is None else self.entropy)


class Objective(Protocol):
    """A loss and the numbers to report about it.

    Attributes:
        coefficients: Names of the numbers that may differ from one update to the next.
        statistics: Names of the numbers that are reported.
    """

    coefficients: ClassVar[tuple[str, ...]]
    statistics: ClassVar[tuple[str, ...]]

    def __call__(self, now: Evaluation, then: RolloutBufferSamples, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """The loss, (), and the statistics, (len(statistics),), for coefficients (len(coefficients),)."""


@dataclass(frozen=True)
class PPOObjective:
    """Clipped surrogate, squared error of the value, entropy: Schulman et al. 2017, with SB3's value clipping.

    Attributes:
        normalize_advantage: Within each minibatch.
        clip_values: Keep the value within `clip_range_vf` of what it was.
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

    def __call__(self, now: Evaluation, then: RolloutBufferSamples, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """See `Objective`; `low` and `high` are 1 -+ clip_range."""
        low, high, clip_range, clip_range_vf, ent_coef, vf_coef = coefficients.unbind()
        # A minibatch of one has no standard deviation.
        normalize = self.normalize_advantage and len(then.advantages) > 1
        advantages = normalized(then.advantages) if normalize else then.advantages
        log_ratio = now.log_prob - then.old_log_prob
        ratio = torch.exp(log_ratio)
        policy_loss = -torch.min(advantages * ratio, advantages * torch.clamp(ratio, low, high)).mean()
        values = now.values
        if self.clip_values:
            values = then.old_values + torch.clamp(values - then.old_values, -clip_range_vf, clip_range_vf)
        value_loss = functional.mse_loss(then.returns, values)
        entropy_loss = now.entropy_loss()
        loss = policy_loss + ent_coef * entropy_loss + vf_coef * value_loss
        with torch.no_grad():
            excess = ratio - 1
            # An unbiased estimate of the reverse divergence that is never negative: joschu.net/blog/kl-approx.html
            approx_kl = torch.mean(excess - log_ratio)
            clip_fraction = torch.mean((torch.abs(excess) > clip_range).float())
            reported = torch.stack((entropy_loss, policy_loss, value_loss, approx_kl, clip_fraction, loss))
        return loss, reported


@dataclass(frozen=True)
class A2CObjective:
    """Policy gradient, squared error of the value, entropy: Mnih et al. 2016."""

    normalize_advantage: bool

    coefficients: ClassVar[tuple[str, ...]] = ("ent_coef", "vf_coef")
    statistics: ClassVar[tuple[str, ...]] = ("entropy_loss", "policy_loss", "value_loss")

    def __call__(self, now: Evaluation, then: RolloutBufferSamples, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """See `Objective`."""
        ent_coef, vf_coef = coefficients.unbind()
        advantages = normalized(then.advantages) if self.normalize_advantage else then.advantages
        policy_loss = -(advantages * now.log_prob).mean()
        value_loss = functional.mse_loss(then.returns, now.values)
        entropy_loss = now.entropy_loss()
        loss = policy_loss + ent_coef * entropy_loss + vf_coef * value_loss
        return loss, torch.stack((entropy_loss, policy_loss, value_loss)).detach()


def normalized(advantages: Tensor) -> Tensor:
    """With mean 0 and standard deviation 1, (n,)."""
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)


def explained_variance(values: Tensor, returns: Tensor) -> Tensor:
    """1 - Var[returns - values] / Var[returns], as (); NaN where the returns do not vary."""
    variance = returns.var(correction=0)
    return torch.where(variance == 0, torch.nan, 1 - (returns - values).var(correction=0) / variance)
