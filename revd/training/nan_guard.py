"""Trainings that diverge: noticed before the next rollout, so that no checkpoint ever holds what is not finite."""

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

#: No network computes with weights larger than that: their squares are hardly numbers of float32.
LARGEST_WEIGHT = 1e18
#: How torch's distributions begin to say that a policy gives NaN, before they print the tensor.
_TORCH_SAYS = "Expected parameter"
_HELP = "a lower learning_rate or normalised rewards (--normalize rewards) usually help"


class Divergence(TrainingFault):
    """
    Policy, optimiser, returns or advantages are not finite any more.

    Args:
        problem: What is not finite.
        steps: When it was noticed.
        spoilt: Whether the policy is lost, so that only earlier checkpoints are of use.
    """

    def __init__(self, problem: str, steps: int, *, spoilt: bool) -> None:
        super().__init__(f"the training diverged at step {steps:,}: {problem}; {_HELP}")
        self.spoilt = spoilt


class DivergenceCallback(BaseCallback):
    """
    Raises a Divergence after a rollout or an update that is not finite.

    Goes before all others: what a bonus adds is the business of its own callback, and until that has seen the rollout,
    the state before the rollout can still be saved.
    """

    def _on_rollout_start(self) -> None:
        check_policy(self._model())

    def _on_rollout_end(self) -> None:
        model = self._model()
        found = rollout_problem(model.rollout_buffer)
        if found is not None:
            problem, spoilt = found
            raise Divergence(problem, model.num_timesteps, spoilt=spoilt)

    def _on_training_end(self) -> None:
        check_policy(self._model())

    def _on_step(self) -> bool:
        return True

    def _model(self) -> OnPolicyAlgorithm:
        assert isinstance(self.model, OnPolicyAlgorithm)
        return self.model


def check_policy(model: OnPolicyAlgorithm) -> None:
    """Raise a Divergence unless the policy's and the optimiser's tensors are finite."""
    problem = policy_problem(model)
    if problem:
        raise Divergence(problem, model.num_timesteps, spoilt=True)


def policy_problem(model: OnPolicyAlgorithm) -> str:
    """What is not finite in policy and optimiser, in words; empty if all is."""
    policy = model.policy
    state = [value for entries in policy.optimizer.state.values() for value in entries.values()]
    if _is_harmless([*policy.parameters(), *policy.buffers(), *state]):
        return ""
    largest = _largest(policy.parameters())
    if not largest <= LARGEST_WEIGHT:
        return f"the policy's weights are {'as large as ' if np.isfinite(largest) else ''}{largest:g}"
    if not np.isfinite(_largest(policy.buffers())):
        return "the statistics inside the policy are not finite"
    return "" if np.isfinite(_largest(state)) else "the optimiser's state is not finite"


def rollout_problem(buffer: RolloutBuffer) -> tuple[str, bool] | None:
    """What is not finite in a rollout, in words, and whether the policy is the cause; None if all is finite."""
    if all(np.isfinite(_on_host(part)).all() for part in (buffer.returns, buffer.advantages, buffer.rewards)):
        return None
    value = float(np.abs(_on_host(buffer.values)).max())
    # NaN is the maximum of whatever holds it, and in no order with anything.
    step, env = np.unravel_index(np.abs(buffer.rewards).argmax(), buffer.rewards.shape)
    reward = buffer.rewards[step, env]
    if not np.isfinite(value) or abs(reward) < value:
        return f"the policy expects returns of {value:g}, and those of the rollout are not finite", True
    return (
        f"the task's reward of {reward:g}, at step {step} of the rollout in environment {env}, makes returns or "
        "advantages that are not finite",
        False,
    )


def explain(error: Exception, model: OnPolicyAlgorithm) -> Divergence | None:
    """The Divergence behind an error that was raised inside an update or by a policy that gives NaN; None without."""
    problem = policy_problem(model)
    if not problem and str(error).startswith(_TORCH_SAYS):
        problem = "the policy's probabilities are not finite"
    return Divergence(problem, model.num_timesteps, spoilt=True) if problem else None


def _on_host(values: Array | torch.Tensor) -> Array:
    """A field of a rollout as an array: those of the fast trainers lie on the device."""
    array: Array = torch.as_tensor(values).cpu().numpy()
    return array


@torch.no_grad()
def _is_harmless(values: Iterable[Any]) -> bool:
    """A quick look that most updates pass: sums are NaN, infinite or large where anything in them is."""
    # Numbers that stand alone are Adam's counts of steps, which it keeps on the CPU.
    sums = [tensor.sum() for tensor in _real(values) if tensor.ndim]
    return bool(torch.stack(sums).abs().max() <= LARGEST_WEIGHT)


def _largest(values: Iterable[Any]) -> float:
    """The largest absolute value; NaN where there is any."""
    return float(get_total_norm([tensor.detach() for tensor in _real(values)], float("inf")))


def _real(values: Iterable[Any]) -> list[torch.Tensor]:
    return [value for value in values if torch.is_tensor(value) and value.is_floating_point()]
