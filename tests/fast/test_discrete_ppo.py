"""PPO's loss and gradient in one kernel, against autograd: in Triton's interpreter where there is no GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

pytest.importorskip("triton", reason="Triton is not made for this system")

from revd.fast import discrete_ppo
from revd.fast.actor_critic import FastCategorical
from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.losses import ActionEvaluation, PPOObjective

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
STEPS, ENVS = 100, 3


def filled(n_actions: int) -> tuple[DeviceRolloutBuffer, Any]:
    """A rollout of random numbers, and logits as they were then."""
    space = spaces.Box(-1, 1, (2,), np.float32)
    buffer = DeviceRolloutBuffer(STEPS, space, spaces.Discrete(n_actions), device=DEVICE, n_envs=ENVS)
    torch.manual_seed(0)
    logits = 2 * torch.randn(STEPS * ENVS, n_actions, device=DEVICE)
    choices = FastCategorical(logits)
    actions = choices.get_actions()
    buffer.stored.actions.copy_(actions.reshape(buffer.stored.actions.shape))
    buffer.stored.log_probs.copy_(choices.log_prob(actions).reshape(STEPS, ENVS))
    for field in (buffer.stored.values, buffer.stored.advantages, buffer.stored.returns):
        field.normal_()
    buffer.full = True
    return buffer, logits


def by_autograd(
    logits: Any, values: Any, rows: Any, buffer: DeviceRolloutBuffer, objective: PPOObjective, coefficients: Any
) -> tuple[Any, Any, Any]:
    samples = buffer.samples(rows)
    choices = FastCategorical(logits)
    evaluation = ActionEvaluation(values.flatten(), choices.log_prob(samples.actions.flatten()), choices.entropy())
    loss, statistics = objective(evaluation, samples, coefficients)
    return *torch.autograd.grad(loss, (logits, values)), statistics


@pytest.mark.parametrize("normalize", [True, False], ids=["normalised", "as they are"])
@pytest.mark.parametrize("clip_values", [True, False], ids=["values clipped", "values free"])
@pytest.mark.parametrize(("n", "n_actions"), [(16, 4), (13, 6), (1, 2), (60, 18), (256, 4)])
@pytest.mark.parametrize("moved", [0.0, 0.3], ids=["first minibatch", "later"])
def test_it_is_what_autograd_finds(normalize: bool, clip_values: bool, n: int, n_actions: int, moved: float) -> None:
    buffer, then = filled(n_actions)
    rows = torch.randperm(STEPS * ENVS, device=DEVICE)[:n]
    logits = (then[rows] + moved * torch.randn(n, n_actions, device=DEVICE)).requires_grad_()
    values = torch.randn(n, 1, device=DEVICE).requires_grad_()
    objective = PPOObjective(normalize, clip_values)
    coefficients = torch.tensor([0.8, 1.2, 0.2, 0.5, 0.01, 0.7], device=DEVICE)
    found = discrete_ppo.loss_gradients(logits, values, rows, buffer, objective, coefficients)
    expected = by_autograd(logits, values, rows, buffer, objective, coefficients)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-7)


def test_impossible_actions_move_nothing() -> None:
    buffer, then = filled(4)
    rows = torch.arange(8, device=DEVICE)
    buffer.stored.actions.zero_()
    logits = then[rows].index_fill(1, torch.tensor([2], device=DEVICE), -torch.inf).requires_grad_()
    values = torch.zeros(8, 1, device=DEVICE, requires_grad=True)
    objective = PPOObjective(normalize_advantage=True, clip_values=False)
    coefficients = torch.tensor([0.8, 1.2, 0.2, 0.5, 0.01, 0.7], device=DEVICE)
    found = discrete_ppo.loss_gradients(logits, values, rows, buffer, objective, coefficients)
    assert (found.logits[:, 2] == 0).all()
    assert all(part.isfinite().all() for part in found)
    torch.testing.assert_close(found.logits, by_autograd(logits, values, rows, buffer, objective, coefficients)[0])


def test_an_action_may_have_become_all_but_impossible() -> None:
    """Its probability is 0 in float32, its logarithm is not."""
    buffer, _ = filled(2)
    rows = torch.arange(8, device=DEVICE)
    buffer.stored.actions.zero_()
    buffer.stored.log_probs.fill_(-3.0)
    logits = torch.tensor([[-120.0, 0.0]], device=DEVICE).repeat(8, 1).requires_grad_()
    values = torch.zeros(8, 1, device=DEVICE, requires_grad=True)
    objective = PPOObjective(normalize_advantage=False, clip_values=False)
    coefficients = torch.tensor([0.8, 1.2, 0.2, 0.5, 0.01, 0.7], device=DEVICE)
    found = discrete_ppo.loss_gradients(logits, values, rows, buffer, objective, coefficients)
    for ours, theirs in zip(found, by_autograd(logits, values, rows, buffer, objective, coefficients), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_number_that_is_none_is_reported() -> None:
    buffer, then = filled(3)
    rows = torch.arange(8, device=DEVICE)
    logits, values = then[rows], torch.full((8, 1), torch.nan, device=DEVICE)
    objective = PPOObjective(normalize_advantage=True, clip_values=False)
    coefficients = torch.tensor([0.8, 1.2, 0.2, 0.5, 0.01, 0.7], device=DEVICE)
    found = discrete_ppo.loss_gradients(logits, values, rows, buffer, objective, coefficients)
    assert found.statistics.isnan().tolist() == [False, False, True, False, False, True]
    assert found.values.isnan().all()


def test_what_is_too_large_for_one_program_is_left_to_torch() -> None:
    assert discrete_ppo.can_evaluate(2048, 8)
    assert not discrete_ppo.can_evaluate(2048, 9)
    assert not discrete_ppo.can_evaluate(2049, 8)
