"""SB3's distributions for `mlp.py`: samples, log-probabilities and gradients without objects of torch or autograd.

Each operation is one that torch's distributions or their gradients make, in the same order, so results equal theirs to
the last bit. Terms that look as if they could be merged would round differently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_LOG_SQRT_2_PI = math.log(math.sqrt(2 * math.pi))
_NORMAL_ENTROPY = 0.5 + 0.5 * math.log(2 * math.pi)


class Evaluation(NamedTuple):
    """Actions as a distribution sees them.

    Attributes:
        log_prob: (n,).
        spread: What the entropy depends on, (n, …).
        others: What the gradient needs besides.
    """

    log_prob: Tensor
    spread: Tensor
    others: tuple[Tensor, ...]


@dataclass(frozen=True)
class Categorical:
    """Discrete actions; the actor's outputs are logits z (n, n_actions)."""

    def sample(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Draw actions (n,) as torch's Categorical does; return them and their log-probabilities."""
        logits = _normalized(outputs)
        actions = torch.multinomial(torch.softmax(logits, -1), 1, True)
        return actions.squeeze(-1), logits.gather(-1, actions).squeeze(-1)

    def evaluate(self, outputs: Tensor, actions: Tensor) -> Evaluation:
        """Evaluate actions (n,); the spread is log p."""
        logits = _normalized(outputs)
        columns = actions.unsqueeze(-1)
        return Evaluation(logits.gather(-1, columns).squeeze(-1), logits, (columns,))

    def entropy(self, spread: Tensor) -> Tensor:
        """Return - sum_i p_i log p_i, (n,)."""
        return -(spread * torch.softmax(spread, -1)).sum(-1)

    def gradients(self, evaluation: Evaluation, by_log_prob: Tensor, by_entropy: Tensor | None) -> tuple[Tensor, None]:
        """Return a loss's gradient by the logits z, and None: there are no other parameters.

        Args:
            evaluation: Of n actions.
            by_log_prob: The loss's gradient by the log-probabilities, (n,).
            by_entropy: By the entropy of each action's distribution, (); None for zero.
        """
        _, logits, (columns,) = evaluation
        if by_entropy is None:
            by_logits = torch.zeros_like(logits)
        else:
            probabilities, weight = torch.softmax(logits, -1), -by_entropy
            by_logits = torch._softmax_backward_data(weight * logits, probabilities, -1, logits.dtype)
            by_logits += weight * probabilities
        by_logits.scatter_add_(-1, columns, by_log_prob.unsqueeze(-1))
        return by_logits - by_logits.sum(-1, keepdim=True) * logits.exp(), None


@dataclass(frozen=True)
class Gaussian:
    """Continuous actions; the actor's outputs are means (n, n_dims), the logarithms of the deviations are parameters.

    Attributes:
        log_std: (n_dims,).
    """

    log_std: Tensor

    def sample(self, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Draw actions (n, n_dims) as torch's Normal does; return them and their log-probabilities."""
        noise = torch.normal(torch.zeros_like(outputs), torch.ones_like(outputs))
        actions = outputs + noise * self._deviations(outputs)
        return actions, self.evaluate(outputs, actions).log_prob

    def evaluate(self, outputs: Tensor, actions: Tensor) -> Evaluation:
        """Evaluate actions (n, n_dims); the spread is log sigma."""
        deviations = self._deviations(outputs)
        log_deviations = deviations.log()
        distance = actions - outputs
        twice_variance = deviations**2 * 2
        exponent = -(distance**2) / twice_variance
        log_prob = (exponent - log_deviations - _LOG_SQRT_2_PI).sum(dim=1)
        return Evaluation(log_prob, log_deviations, (deviations, distance, twice_variance, exponent))

    def entropy(self, spread: Tensor) -> Tensor:
        """Return the sum of 1/2 + log(2 pi) / 2 + log sigma, (n,)."""
        return (_NORMAL_ENTROPY + spread).sum(dim=1)

    def gradients(
        self, evaluation: Evaluation, by_log_prob: Tensor, by_entropy: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return a loss's gradients by the means and by `log_std`; the arguments are Categorical's."""
        deviations, distance, twice_variance, exponent = evaluation.others
        by_term = by_log_prob.unsqueeze(1)
        by_deviations = -by_term / deviations
        if by_entropy is not None:
            by_deviations = by_entropy / deviations + by_deviations
        by_deviations += -by_term * (exponent / twice_variance) * 2 * (2 * deviations)
        by_log_std = by_deviations.sum(0) * self.log_std.exp()
        return by_term / twice_variance * (2 * distance), by_log_std

    def _deviations(self, outputs: Tensor) -> Tensor:
        return torch.ones_like(outputs) * self.log_std.exp()


def _normalized(outputs: Tensor) -> Tensor:
    """Return log p, (n, n_actions), of logits."""
    return outputs - outputs.logsumexp(-1, keepdim=True)
