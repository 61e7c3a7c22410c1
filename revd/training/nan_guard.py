"""Checks for NaN and infinity before and after each rollout, so that no checkpoint holds any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from torch.nn.utils import get_total_norm

from revd.training.env_checks import TrainingFault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stable_baselines3.common.buffers import RolloutBuffer

    from revd.arrays import Array

#: Larger weights are treated as divergence: their squares overflow float32.
LARGEST_WEIGHT = 1e18
#: The start of the error of torch's distributions for a policy that returns NaN.
_TORCH_MESSAGE = "Expected parameter"
_ADVICE = "a lower learning_rate or normalised rewards (--normalize rewards) usually help"


class NotFiniteError(TrainingFault):
    """Policy, optimiser, returns or advantages hold NaN or infinity.

    Args:
        problem: Describes what is not finite.
        steps: Environment steps at which it was found.
        policy_lost: Whether the policy is unusable, so that only earlier checkpoints help.
    """

    def __init__(self, problem: str, steps: int, *, policy_lost: bool) -> None:
        super().__init__(f"the training diverged at step {steps:,}: {problem}; {_ADVICE}")
        self.policy_lost = policy_lost


class NanGuard(BaseCallback):
    """Raises a NotFiniteError after a rollout or an update that is not finite.

    It must be the first callback. The bonus's callback checks its own rewards, and until it has processed the rollout
    the state before the rollout can still be saved.
    """

    def _on_rollout_start(self) -> None:
        check_policy(self._on_policy_model())

    def _on_rollout_end(self) -> None:
        model = self._on_policy_model()
        found = rollout_problem(model.rollout_buffer)
        if found is not None:
            problem, policy_lost = found
            raise NotFiniteError(problem, model.num_timesteps, policy_lost=policy_lost)

    def _on_training_end(self) -> None:
        check_policy(self._on_policy_model())

    def _on_step(self) -> bool:
        return True

    def _on_policy_model(self) -> OnPolicyAlgorithm:
        assert isinstance(self.model, OnPolicyAlgorithm)
        return self.model


def check_policy(model: OnPolicyAlgorithm) -> None:
    """Raise a NotFiniteError unless the policy's and the optimiser's tensors are finite."""
    problem = policy_problem(model)
    if problem:
        raise NotFiniteError(problem, model.num_timesteps, policy_lost=True)


def policy_problem(model: OnPolicyAlgorithm) -> str:
    """Describe what is not finite in policy and optimiser; empty if everything is finite."""
    policy = model.policy
    state = [value for entries in policy.optimizer.state.values() for value in entries.values()]
    if _passes_quick_check([*policy.parameters(), *policy.buffers(), *state]):
        return ""
    largest = _largest(policy.parameters())
    if not largest <= LARGEST_WEIGHT:
        return f"the policy's weights are {'as large as ' if np.isfinite(largest) else ''}{largest:g}"
    if not np.isfinite(_largest(policy.buffers())):
        return "the statistics inside the policy are not finite"
    return "" if np.isfinite(_largest(state)) else "the optimiser's state is not finite"


def rollout_problem(buffer: RolloutBuffer) -> tuple[str, bool] | None:
    """Describe what is not finite in a rollout and whether the policy is the cause; None if all is finite."""
    if all(np.isfinite(_on_host(part)).all() for part in (buffer.returns, buffer.advantages, buffer.rewards)):
        return None
    value = float(np.abs(_on_host(buffer.values)).max())
    # If there is a NaN, argmax and max return it, and every comparison with it is false.
    step, env = np.unravel_index(np.abs(buffer.rewards).argmax(), buffer.rewards.shape)
    reward = buffer.rewards[step, env]
    if not np.isfinite(value) or abs(reward) < value:
        return f"the policy predicts values of {value:g}, and the rollout's returns or advantages are not finite", True
    return (
        f"the task's reward of {reward:g}, at step {step} of the rollout in environment {env}, makes returns or "
        "advantages that are not finite",
        False,
    )


def not_finite_cause(error: Exception, model: OnPolicyAlgorithm) -> NotFiniteError | None:
    """Return the NotFiniteError that caused an error in an update or in the policy; None if there is none."""
    problem = policy_problem(model)
    if not problem and str(error).startswith(_TORCH_MESSAGE):
        problem = "the policy's probabilities are not finite"
    return NotFiniteError(problem, model.num_timesteps, policy_lost=True) if problem else None


def _on_host(values: Array | torch.Tensor) -> Array:
    """Return a field of a rollout as an array; the fast trainers keep theirs on the device."""
    array: Array = torch.as_tensor(values).cpu().numpy()
    return array


@torch.no_grad()
def _passes_quick_check(values: Iterable[Any]) -> bool:
    """A fast check that most updates pass: a sum is NaN, infinite or large if one of its terms is."""
    # Skips scalars: they are Adam's step counts, which are on the CPU.
    sums = [tensor.sum() for tensor in _float_tensors(values) if tensor.ndim]
    return bool(torch.stack(sums).abs().max() <= LARGEST_WEIGHT)


def _largest(values: Iterable[Any]) -> float:
    """Return the largest absolute value, NaN if there is one."""
    return float(get_total_norm([tensor.detach() for tensor in _float_tensors(values)], float("inf")))


def _float_tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    return [value for value in values if torch.is_tensor(value) and value.is_floating_point()]
