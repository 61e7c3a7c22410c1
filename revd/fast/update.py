"""Gradient steps on the minibatches of a rollout, none of which waits for a number."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn

from revd.fast.actor_critic import Branches, Networks
from revd.fast.buffer import Array, DeviceRolloutBuffer
from revd.fast.cuda_graphs import Recorder, Replayable, addresses
from revd.fast.losses import Evaluation, Objective, PPOObjective, explained_variance
from revd.fast.optimizers import CapturableForm, align_state, state_tensors, stepping_together
from revd.functional.search.triton_support import triton_works


class Update:
    """What `train()` does with a policy and its buffer.

    A minibatch is one replayable piece of work: gather, forward, loss, backward, clipping, optimiser. Where somebody
    must look at the numbers before the parameters change (`target_kl`), it is two, which meet in gradients that stay in
    place. What may change between updates without a new capture (learning rate, coefficients) lies in tensors;
    statistics are kept on the device until the end.
    """

    def __init__(
        self, policy: ActorCriticPolicy, networks: Networks, buffer: DeviceRolloutBuffer, recorder: Recorder | None
    ) -> None:
        self.policy = policy
        self._networks = networks
        self._buffer = buffer
        self._discrete = isinstance(buffer.action_space, spaces.Discrete)
        # Only the weights of convolutions have more than one layout.
        self._has_convolutions = any(parameter.ndim == 4 for parameter in policy.parameters())
        self._capturing = recorder is not None
        self._form = CapturableForm(policy.optimizer, buffer.device)
        self._objective: Objective
        self._max_grad_norm = 0.0
        self._coefficients = torch.zeros(0, device=buffer.device)
        self._statistics = torch.zeros(0, 0, device=buffer.device)
        self._next = torch.zeros(1, dtype=torch.int64, device=buffer.device)
        self._kept_gradients: dict[nn.Parameter, Tensor] = {}
        self._steps: Replayable[None] = Replayable("the update", self._step, recorder, self._fingerprint)
        self._gradients: Replayable[Tensor] = Replayable("the gradient", self._gradient, recorder, self._fingerprint)
        self._changes: Replayable[None] = Replayable("the optimiser", self._change, recorder, self._fingerprint)

    @contextmanager
    def running(
        self, objective: Objective, coefficients: Mapping[str, float], *, max_grad_norm: float, steps: int
    ) -> Iterator[None]:
        """Prepare for at most `steps` minibatches, and leave the optimiser as SB3 knows it."""
        self._objective = objective
        self._max_grad_norm = max_grad_norm
        self._coefficients = _filled(self._coefficients, [coefficients[name] for name in objective.coefficients])
        shape = (steps, len(objective.statistics))
        if self._statistics.shape != shape:
            self._statistics = torch.zeros(shape, device=self._buffer.device)
        self._next.zero_()
        if self._has_convolutions:
            align_state(self.policy.optimizer)
        with self._form.applied() if self._capturing else stepping_together(self.policy.optimizer):
            for work in (self._steps, self._gradients, self._changes):
                work.renew()
            yield

    def step(self, rows: Tensor) -> None:
        """One minibatch: the rows of the buffer that belong to it."""
        self._steps(rows)

    def gradients(self, rows: Tensor) -> Tensor:
        """The first half of `step`, up to the gradients; returns the statistics."""
        for parameter in self.policy.parameters():
            # Captures of several shapes write here, and one capture of the optimiser reads it. Frozen parameters have
            # none, for with one an optimiser's momentum would move them.
            parameter.grad = self._kept_gradient(parameter) if parameter.requires_grad else None
        return self._gradients(rows)

    def _kept_gradient(self, parameter: nn.Parameter) -> Tensor:
        if parameter not in self._kept_gradients:
            self._kept_gradients[parameter] = torch.zeros_like(parameter)
        return self._kept_gradients[parameter]

    def change(self) -> None:
        """The second half of `step`."""
        self._changes()

    def statistics(self) -> Array:
        """The numbers that the objective reports, a row for each minibatch; this waits for the device.

        Raises:
            ValueError: Some are not finite, and no distribution has complained, since captured ones cannot.
        """
        rows: Array = self._statistics[: int(self._next)].cpu().numpy()
        if self._capturing and not np.isfinite(rows).all():
            where = dict(zip(self._objective.statistics, rows[~np.isfinite(rows).all(axis=1)][0], strict=True))
            raise ValueError(f"the policy's update has come to numbers that are not finite: {where}")
        return rows

    def explained_variance(self) -> float:
        """How much of the variance of the returns the values had foreseen."""
        return float(explained_variance(self._buffer.stored.values, self._buffer.stored.returns))

    def _step(self, rows: Tensor) -> None:
        self._backward(rows, set_to_none=True)
        self._change()

    def _gradient(self, rows: Tensor) -> Tensor:
        return self._backward(rows, set_to_none=False)

    def _backward(self, rows: Tensor, *, set_to_none: bool) -> Tensor:
        """Leave the gradients of a minibatch in the parameters; returns the statistics."""
        outputs, gradients, statistics = self._ends(rows)
        self._statistics.index_copy_(0, self._next, statistics[None])
        self._next += 1
        self.policy.optimizer.zero_grad(set_to_none=set_to_none)
        torch.autograd.backward(outputs, gradients)
        return statistics

    def _ends(self, rows: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor | None], Tensor]:
        """Where gradients go back from: outputs of the policy, the loss's gradients by them, and the statistics."""
        found = self._ends_in_one_kernel(rows)
        if found is not None:
            return found
        samples = self._buffer.samples(rows)
        actions = samples.actions.long().flatten() if self._discrete else samples.actions
        values, log_prob, entropy = self._networks.evaluate_actions(samples.observations, actions)
        loss, statistics = self._objective(Evaluation(values.flatten(), log_prob, entropy), samples, self._coefficients)
        return (loss,), (None,), statistics

    def _ends_in_one_kernel(self, rows: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor], Tensor] | None:
        """The same for PPO with discrete actions on a GPU; None for others."""
        networks, objective = self._networks, self._objective
        if not (self._few_kernels and isinstance(networks, Branches) and isinstance(objective, PPOObjective)):
            return None
        from revd.fast import discrete_ppo

        if not networks.n_choices or not discrete_ppo.can_evaluate(len(rows), networks.n_choices):
            return None
        shown = self._buffer.shown(rows)
        assert isinstance(shown, Tensor)
        outputs = networks.logits_and_values(shown)
        found = discrete_ppo.gradients(*outputs, rows, self._buffer, objective, self._coefficients)
        # One of the two may be frozen.
        ends = [(end, by) for end, by in zip(outputs, found[:2], strict=True) if end.requires_grad]
        return [end for end, _ in ends], [by for _, by in ends], found.statistics

    @property
    def _few_kernels(self) -> bool:
        """Whether kernels of our own stand in for many of torch's."""
        return self._capturing and triton_works(self._buffer.device)

    def _change(self) -> None:
        optimizer = self.policy.optimizer
        if self._few_kernels:
            from revd.fast import clipped_adam

            trained = [parameter for parameter in self.policy.parameters() if parameter.grad is not None]
            if clipped_adam.can_step(optimizer, trained):
                clipped_adam.step(optimizer, trained, self._max_grad_norm)
                return
        nn.utils.clip_grad_norm_(self.policy.parameters(), self._max_grad_norm)
        optimizer.step()

    def _fingerprint(self) -> Hashable:
        optimizer = self.policy.optimizer
        places = addresses(
            *self.policy.parameters(),
            *self.policy.buffers(),
            *state_tensors(optimizer),
            *self._form.rates,
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
        return places, tuple(options), trained, self._objective, self._max_grad_norm


def _filled(tensor: Tensor, numbers: list[float]) -> Tensor:
    """The numbers in the same memory, if they are as many as before."""
    fresh = torch.tensor(numbers, dtype=torch.float32, device="cpu")
    return tensor.copy_(fresh) if tensor.shape == fresh.shape else fresh.to(tensor.device)
