"""The gradients and statistics of PPO's and A2C's objectives (`losses.py`) without autograd.

Gradients are computed for one minibatch, in the order of autograd. Statistics are only logged, so they are computed for
many minibatches at once.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from revd.fast.losses import A2CObjective, Objective, PPOObjective, standardized


class Steps(NamedTuple):
    """Steps of the rollout, (n,) each."""

    old_log_prob: Tensor
    old_values: Tensor
    advantages: Tensor
    returns: Tensor


class Predictions(NamedTuple):
    """What the policy says of those steps, (n,) each, or a loss's gradients by it."""

    log_prob: Tensor
    values: Tensor


class Loss(Protocol):
    """An objective with its coefficients."""

    ent_coef: Tensor

    def standardize(self, steps: Steps) -> Steps:
        """Return the steps of a minibatch with the advantages that the loss uses."""

    def gradients(self, steps: Steps, predictions: Predictions) -> Predictions:
        """Return the gradients of a minibatch's loss without its entropy."""

    def terms(self, steps: Steps, predictions: Predictions, entropy: Tensor) -> Tensor:
        """Return per step what `statistics` takes the mean of, (n_terms, n)."""

    def statistics(self, means: Tensor) -> Tensor:
        """Return the objective's statistics, (n_minibatches, n_statistics), of means (n_terms, n_minibatches)."""


def make_loss(objective: Objective, coefficients: Tensor) -> Loss:
    """Return the loss of an objective."""
    if isinstance(objective, PPOObjective):
        return PPOLoss(objective, coefficients)
    assert isinstance(objective, A2CObjective)
    return A2CLoss(objective, coefficients)


class PPOLoss:
    """`PPOObjective`."""

    def __init__(self, objective: PPOObjective, coefficients: Tensor) -> None:
        self._normalize = objective.normalize_advantage
        self._clip_values = objective.clip_values
        self._low, self._high, self._clip_range, self._clip_range_vf, *others = coefficients.unbind()
        self.ent_coef, self._vf_coef = others

    def standardize(self, steps: Steps) -> Steps:
        """Standardise the advantages; a minibatch of one has no standard deviation."""
        normalize = self._normalize and len(steps.advantages) > 1
        return steps._replace(advantages=standardized(steps.advantages)) if normalize else steps

    def gradients(self, steps: Steps, predictions: Predictions) -> Predictions:
        """Return the gradients by log-probabilities and values."""
        advantages = steps.advantages
        ratio = torch.exp(predictions.log_prob - steps.old_log_prob)
        # Where both terms of the minimum are equal, the ratio is not clipped.
        clipped = advantages * ratio > advantages * torch.clamp(ratio, self._low, self._high)
        by_ratio = (advantages * (-1 / len(ratio))).masked_fill_(clipped, 0)
        return Predictions(by_ratio * ratio, self._by_values(steps, predictions.values))

    def _by_values(self, steps: Steps, values: Tensor) -> Tensor:
        used = self._used_values(steps, values)
        gradient: Tensor = torch.ops.aten.mse_loss_backward(self._vf_coef, used, steps.returns, 1)
        if self._clip_values:
            gradient.masked_fill_((values - steps.old_values).abs() > self._clip_range_vf, 0)
        return gradient

    def _used_values(self, steps: Steps, values: Tensor) -> Tensor:
        if not self._clip_values:
            return values
        change = torch.clamp(values - steps.old_values, -self._clip_range_vf, self._clip_range_vf)
        return steps.old_values + change

    def terms(self, steps: Steps, predictions: Predictions, entropy: Tensor) -> Tensor:
        """Return entropy, gain, squared error of the value, KL divergence, whether clipped."""
        log_ratio = predictions.log_prob - steps.old_log_prob
        ratio = torch.exp(log_ratio)
        clipped = torch.clamp(ratio, self._low, self._high)
        gain = torch.min(steps.advantages * ratio, steps.advantages * clipped)
        error = (steps.returns - self._used_values(steps, predictions.values)) ** 2
        excess = ratio - 1
        return torch.stack((entropy, gain, error, excess - log_ratio, (excess.abs() > self._clip_range).float()))

    def statistics(self, means: Tensor) -> Tensor:
        """Return `PPOObjective.statistics` of each minibatch."""
        entropy, gain, value_loss, approx_kl, clip_fraction = means
        loss = -gain - self.ent_coef * entropy + self._vf_coef * value_loss
        return torch.stack((-entropy, -gain, value_loss, approx_kl, clip_fraction, loss), dim=1)


class A2CLoss:
    """`A2CObjective`."""

    def __init__(self, objective: A2CObjective, coefficients: Tensor) -> None:
        self._normalize = objective.normalize_advantage
        self.ent_coef, self._vf_coef = coefficients.unbind()

    def standardize(self, steps: Steps) -> Steps:
        """Standardise the advantages."""
        return steps._replace(advantages=standardized(steps.advantages)) if self._normalize else steps

    def gradients(self, steps: Steps, predictions: Predictions) -> Predictions:
        """Return the gradients by log-probabilities and values."""
        by_values = torch.ops.aten.mse_loss_backward(self._vf_coef, predictions.values, steps.returns, 1)
        return Predictions(steps.advantages * (-1 / len(steps.advantages)), by_values)

    def terms(self, steps: Steps, predictions: Predictions, entropy: Tensor) -> Tensor:
        """Return entropy, gain and squared error of the value."""
        error = (steps.returns - predictions.values) ** 2
        return torch.stack((entropy, steps.advantages * predictions.log_prob, error))

    def statistics(self, means: Tensor) -> Tensor:
        """Return `A2CObjective.statistics` of each minibatch."""
        entropy, gain, value_loss = means
        return torch.stack((-entropy, -gain, value_loss), dim=1)
