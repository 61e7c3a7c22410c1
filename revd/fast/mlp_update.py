"""Gradient steps for SB3's MLP policy on a CPU, without autograd: the same parameters to the last bit, in less time."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.flat_adam import FlatAdam, FlatTensors, clip_gradients, is_plain_adam
from revd.fast.losses import Objective, explained_variance
from revd.fast.mlp import MlpActorCritic, weights_of
from revd.fast.mlp_losses import Loss, Predictions, Steps, make_loss
from revd.fast.optimizers import foreach_stepping
from revd.functional.perceptron import run, run_back

if TYPE_CHECKING:
    from revd.arrays import Array


class _Evaluated(NamedTuple):
    """A minibatch that has been trained on, for its statistics."""

    steps: Steps
    predictions: Predictions
    spread: Tensor


class MlpUpdate:
    """Replaces `PolicyUpdate` for a policy that `is_standard_mlp`.

    Plain Adam steps one flat buffer; parameters and moments are copied there and back once per update. Any other
    optimiser, and an update of a single step, which the copies would outweigh, uses torch's.
    """

    def __init__(self, policy: ActorCriticPolicy, buffer: DeviceRolloutBuffer) -> None:
        self.policy = policy
        self._buffer = buffer
        self._discrete = isinstance(buffer.action_space, spaces.Discrete)
        self._parameters = list(policy.parameters())
        self._gradients = FlatTensors([parameter.shape for parameter in self._parameters])
        self._flat_adam = FlatAdam(self._parameters, self._gradients)
        self._gradient_of = weights_of(policy, self._by_parameter(self._gradients.views))
        self._flat: FlatAdam | None = None
        self._loss: Loss
        self._max_grad_norm = 0.0
        self._evaluated: list[_Evaluated] = []
        self._statistics: list[Tensor] = []

    def is_for(self, policy: ActorCriticPolicy) -> bool:
        """Whether it trains the present parameters of a policy, whose layers may have been replaced."""
        present = list(policy.parameters())
        return len(present) == len(self._parameters) and all(map(operator.is_, present, self._parameters))

    def _by_parameter(self, tensors: list[Tensor]) -> dict[Tensor, Tensor]:
        return dict(zip(self._parameters, tensors, strict=True))

    @contextmanager
    def prepared(
        self, objective: Objective, coefficients: Mapping[str, float], *, max_grad_norm: float, steps: int
    ) -> Iterator[None]:
        """Prepare for at most `steps` minibatches of the rollout in the buffer."""
        numbers = [coefficients[name] for name in objective.coefficients]
        self._loss = make_loss(objective, torch.tensor(numbers, device="cpu"))
        self._has_entropy = bool(self._loss.ent_coef)
        self._max_grad_norm = max_grad_norm
        self._evaluated, self._statistics = [], []
        stored = self._buffer.stored
        self._steps = torch.stack(
            [each.flatten() for each in (stored.log_probs, stored.values, stored.advantages, stored.returns)]
        )
        actions = stored.actions.flatten(0, 1)
        self._actions = actions.long().flatten() if self._discrete else actions.float()
        optimizer = self.policy.optimizer
        self._flat = self._flat_adam if steps > 1 and is_plain_adam(optimizer, self._parameters) else None
        with foreach_stepping(optimizer), torch.no_grad():
            if self._flat is None:
                self._actor_critic = MlpActorCritic(self.policy)
            else:
                self._flat.load(optimizer)
                self._actor_critic = MlpActorCritic(self.policy, self._by_parameter(self._flat.parameters.views))
            try:
                yield
            finally:
                if self._flat is not None:
                    self._flat.store(optimizer)
                for parameter, gradient in zip(self._parameters, self._gradients.views, strict=True):
                    parameter.grad = gradient.clone()

    def step(self, rows: Tensor) -> None:
        """Train on one minibatch: the steps `rows` of the buffer."""
        steps = self._loss.standardize(Steps(*self._steps.index_select(1, rows)))
        observations = self._buffer.observations_at(rows)
        assert isinstance(observations, Tensor)
        self._backward(steps, observations, self._actions.index_select(0, rows))
        if self._flat is not None:
            clip_gradients(self._gradients, self._max_grad_norm)
            self._flat.step()
            return
        for parameter, gradient in zip(self._parameters, self._gradients.views, strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(self._parameters, self._max_grad_norm)
        self.policy.optimizer.step()

    def _backward(self, steps: Steps, observations: Tensor, actions: Tensor) -> None:
        """Compute the gradients of a minibatch."""
        weights, distribution = self._actor_critic.weights, self._actor_critic.distribution
        features = self._actor_critic.features(observations)
        actor, critic = run(weights.actor, features), run(weights.critic, features)
        evaluation = distribution.evaluate(actor[-1], actions)
        predictions = Predictions(evaluation.log_prob, critic[-1].flatten())
        by_log_prob, by_values = self._loss.gradients(steps, predictions)
        by_entropy = -self._loss.ent_coef / len(by_log_prob) if self._has_entropy else None
        by_outputs, by_log_std = distribution.gradients(evaluation, by_log_prob, by_entropy)
        run_back(weights.actor, self._gradient_of.actor, actor, by_outputs)
        run_back(weights.critic, self._gradient_of.critic, critic, by_values.unsqueeze(1))
        if by_log_std is not None and self._gradient_of.log_std is not None:
            self._gradient_of.log_std.copy_(by_log_std)
        self._evaluated.append(_Evaluated(steps, predictions, evaluation.spread))
        # Once per epoch: memory does not grow with the number of epochs.
        if sum(len(evaluated.spread) for evaluated in self._evaluated) >= self._steps.shape[1]:
            self._summarize()

    def statistics(self) -> Array:
        """Return the objective's statistics, one row per minibatch.

        Raises:
            ValueError: The policy's output is not a number.
        """
        self._summarize()
        rows: Array = torch.cat(self._statistics).numpy()
        return rows

    def explained_variance(self) -> float:
        """Return the share of the returns' variance that the values explain."""
        return float(explained_variance(self._buffer.stored.values, self._buffer.stored.returns))

    def _summarize(self) -> None:
        """Compute the statistics of the minibatches since the last call, all at once."""
        if not self._evaluated:
            return
        all_steps, all_predictions, spreads = zip(*self._evaluated, strict=True)
        steps = Steps(*map(torch.cat, zip(*all_steps, strict=True)))
        predictions = Predictions(*map(torch.cat, zip(*all_predictions, strict=True)))
        self._evaluated = []
        if torch.isnan(predictions.log_prob).any():
            raise ValueError("the policy's update gave log-probabilities that are not a number")
        terms = self._loss.terms(steps, predictions, self._actor_critic.distribution.entropy(torch.cat(spreads)))
        sizes = [len(spread) for spread in spreads]
        means = torch.stack([part.mean(dim=1) for part in terms.split(sizes, dim=1)], dim=1)
        self._statistics.append(self._loss.statistics(means))
