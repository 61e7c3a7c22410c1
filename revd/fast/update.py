"""Gradient steps on the minibatches of a rollout, without waiting for the GPU in between."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from revd.fast.actor_critic import ActorCritic, FastActorCritic
from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.cuda_graphs import GraphedFunction, GraphRecorder, addresses
from revd.fast.losses import ActionEvaluation, Objective, PPOObjective, explained_variance
from revd.fast.optimizers import CapturableMode, align_state, foreach_stepping, state_tensors
from revd.functional.search.triton_support import triton_works

if TYPE_CHECKING:
    from revd.arrays import Array


class PolicyUpdate:
    """The gradient steps of `train()` for a policy and its buffer.

    A minibatch is one graphed function: gather, forward, loss, backward, clipping, optimiser. If the statistics are
    needed before the parameters change (`target_kl`), it is two functions, which share gradients at fixed addresses.
    Values that may change between updates without a new capture (learning rate, coefficients) are kept in tensors.
    Statistics stay on the device until the end.
    """

    def __init__(
        self,
        policy: ActorCriticPolicy,
        actor_critic: ActorCritic,
        buffer: DeviceRolloutBuffer,
        recorder: GraphRecorder | None,
    ) -> None:
        self.policy = policy
        self._actor_critic = actor_critic
        self._buffer = buffer
        self._discrete = isinstance(buffer.action_space, spaces.Discrete)
        # Only weights of convolutions may have another memory layout.
        self._has_convolutions = any(parameter.ndim == 4 for parameter in policy.parameters())
        self._capturing = recorder is not None
        self._capturable_mode = CapturableMode(policy.optimizer, buffer.device)
        self._objective: Objective
        self._max_grad_norm = 0.0
        self._coefficients = torch.zeros(0, device=buffer.device)
        self._statistics = torch.zeros(0, 0, device=buffer.device)
        self._next_row = torch.zeros(1, dtype=torch.int64, device=buffer.device)
        self._kept_gradients: dict[nn.Parameter, Tensor] = {}
        self._graphed_step: GraphedFunction[None] = GraphedFunction(
            "the update", self._step, recorder, self._fingerprint
        )
        self._graphed_gradients: GraphedFunction[Tensor] = GraphedFunction(
            "the gradient", self._keep_gradients, recorder, self._fingerprint
        )
        self._graphed_optimizer_step: GraphedFunction[None] = GraphedFunction(
            "the optimiser", self._step_optimizer, recorder, self._fingerprint
        )

    @contextmanager
    def prepared(
        self, objective: Objective, coefficients: Mapping[str, float], *, max_grad_norm: float, steps: int
    ) -> Iterator[None]:
        """Prepare for at most `steps` minibatches; restore the optimiser's settings afterwards."""
        self._objective = objective
        self._max_grad_norm = max_grad_norm
        self._coefficients = _overwritten(self._coefficients, [coefficients[name] for name in objective.coefficients])
        shape = (steps, len(objective.statistics))
        if self._statistics.shape != shape:
            self._statistics = torch.zeros(shape, device=self._buffer.device)
        self._next_row.zero_()
        if self._has_convolutions:
            align_state(self.policy.optimizer)
        with self._capturable_mode.enabled() if self._capturing else foreach_stepping(self.policy.optimizer):
            for graphed in (self._graphed_step, self._graphed_gradients, self._graphed_optimizer_step):
                graphed.drop_stale_captures()
            yield

    def step(self, rows: Tensor) -> None:
        """Train on one minibatch: the steps `rows` of the buffer."""
        self._graphed_step(rows)

    def gradients(self, rows: Tensor) -> Tensor:
        """Do the first half of `step`, up to the gradients; return the statistics."""
        for parameter in self.policy.parameters():
            # Captures of all shapes write to these gradients, and one capture of the optimiser reads them. Frozen
            # parameters get none: the optimiser's momentum would move a parameter that has one.
            parameter.grad = self._kept_gradient(parameter) if parameter.requires_grad else None
        return self._graphed_gradients(rows)

    def _kept_gradient(self, parameter: nn.Parameter) -> Tensor:
        if parameter not in self._kept_gradients:
            self._kept_gradients[parameter] = torch.zeros_like(parameter)
        return self._kept_gradients[parameter]

    def apply_gradients(self) -> None:
        """Do the second half of `step`: clip the gradients and step the optimiser."""
        self._graphed_optimizer_step()

    def statistics(self) -> Array:
        """Wait for the device and return the objective's statistics, one row per minibatch.

        Raises:
            ValueError: A captured update gave statistics that are not finite. Eager distributions raise on their own.
        """
        rows: Array = self._statistics[: int(self._next_row)].cpu().numpy()
        if self._capturing and not np.isfinite(rows).all():
            where = dict(zip(self._objective.statistics, rows[~np.isfinite(rows).all(axis=1)][0], strict=True))
            raise ValueError(f"the policy's update gave statistics that are not finite: {where}")
        return rows

    def explained_variance(self) -> float:
        """Return the share of the returns' variance that the values explain."""
        return float(explained_variance(self._buffer.stored.values, self._buffer.stored.returns))

    def _step(self, rows: Tensor) -> None:
        self._backward(rows, set_to_none=True)
        self._step_optimizer()

    def _keep_gradients(self, rows: Tensor) -> Tensor:
        return self._backward(rows, set_to_none=False)

    def _backward(self, rows: Tensor, *, set_to_none: bool) -> Tensor:
        """Compute the gradients of a minibatch into the parameters; return the statistics."""
        outputs, gradients, statistics = self._backward_inputs(rows)
        self._statistics.index_copy_(0, self._next_row, statistics[None])
        self._next_row += 1
        self.policy.optimizer.zero_grad(set_to_none=set_to_none)
        torch.autograd.backward(outputs, gradients)
        return statistics

    def _backward_inputs(self, rows: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor | None], Tensor]:
        """Return the tensors to start the backward pass from, their gradients, and the statistics."""
        from_kernel = self._backward_inputs_from_kernel(rows)
        if from_kernel is not None:
            return from_kernel
        samples = self._buffer.samples(rows)
        actions = samples.actions.long().flatten() if self._discrete else samples.actions
        values, log_prob, entropy = self._actor_critic.evaluate_actions(samples.observations, actions)
        loss, statistics = self._objective(
            ActionEvaluation(values.flatten(), log_prob, entropy), samples, self._coefficients
        )
        return (loss,), (None,), statistics

    def _backward_inputs_from_kernel(self, rows: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor], Tensor] | None:
        """Do the same with our kernel, for PPO with Discrete actions on a GPU; None for others."""
        actor_critic, objective = self._actor_critic, self._objective
        if not self._uses_own_kernels or not isinstance(objective, PPOObjective):
            return None
        if not isinstance(actor_critic, FastActorCritic):
            return None
        from revd.fast import discrete_ppo

        n_actions = actor_critic.n_discrete_actions
        if not n_actions or not discrete_ppo.can_evaluate(len(rows), n_actions):
            return None
        observations = self._buffer.observations_at(rows)
        assert isinstance(observations, Tensor)
        outputs = actor_critic.logits_and_values(observations)
        result = discrete_ppo.loss_gradients(*outputs, rows, self._buffer, objective, self._coefficients)
        # Actor or critic may be frozen.
        pairs = [pair for pair in zip(outputs, result[:2], strict=True) if pair[0].requires_grad]
        return [output for output, _ in pairs], [gradient for _, gradient in pairs], result.statistics

    @property
    def _uses_own_kernels(self) -> bool:
        """Whether our Triton kernels replace torch's."""
        return self._capturing and triton_works(self._buffer.device)

    def _step_optimizer(self) -> None:
        optimizer = self.policy.optimizer
        if self._uses_own_kernels:
            from revd.fast import clipped_adam

            trained = [parameter for parameter in self.policy.parameters() if parameter.grad is not None]
            if clipped_adam.can_step(optimizer, trained):
                clipped_adam.step(optimizer, trained, self._max_grad_norm)
                return
        nn.utils.clip_grad_norm_(self.policy.parameters(), self._max_grad_norm)
        optimizer.step()

    def _fingerprint(self) -> Hashable:
        optimizer = self.policy.optimizer
        tensor_addresses = addresses(
            *self.policy.parameters(),
            *self.policy.buffers(),
            *state_tensors(optimizer),
            *self._capturable_mode.rates,
            *self._kept_gradients.values(),
            *self._buffer.tensors,
            self._coefficients,
            self._statistics,
        )
        options = [
            str({name: value for name, value in group.items() if name not in ("params", "lr")})
            for group in optimizer.param_groups
        ]
        trained = tuple(parameter.requires_grad for parameter in self.policy.parameters())
        return tensor_addresses, tuple(options), trained, self._objective, self._max_grad_norm


def _overwritten(tensor: Tensor, numbers: list[float]) -> Tensor:
    """Write numbers into a tensor, or into a new one if their count has changed."""
    new = torch.tensor(numbers, dtype=torch.float32, device="cpu")
    return tensor.copy_(new) if tensor.shape == new.shape else new.to(tensor.device)
