"""Discrete actions in few kernels, against torch's own distribution; the streams are tested in test_cuda.py."""

from __future__ import annotations

import torch
from torch.distributions import Categorical

from revd.sb3 import FastPPO
from revd.sb3.fast.branches import Choices, networks_of
from tests.sb3.fast.support import build, noise

LOGITS = torch.tensor([[0.0, 1.0, -2.0, 0.5], [30.0, -30.0, 0.0, 0.0], [-1e4, 0.0, 1e4, 3.0]])


def test_log_probabilities_and_entropies_are_those_of_torch() -> None:
    logits = LOGITS.clone().requires_grad_()
    actions = torch.tensor([3, 0, 2])
    ours, theirs = Choices(logits), Categorical(logits=logits)
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    for found, expected in ((ours.log_prob(actions), theirs.log_prob(actions)), (ours.entropy(), theirs.entropy())):
        gradients = [torch.autograd.grad(value.sum(), logits, retain_graph=True)[0] for value in (found, expected)]
        torch.testing.assert_close(*gradients)


def test_actions_are_drawn_with_their_probabilities() -> None:
    torch.manual_seed(0)
    drawn = Choices(LOGITS[:1].expand(40_000, -1)).get_actions()
    found = torch.bincount(drawn, minlength=4) / len(drawn)
    torch.testing.assert_close(found, torch.softmax(LOGITS[0], 0), rtol=0, atol=0.01)


def test_what_is_impossible_is_never_drawn() -> None:
    torch.manual_seed(0)
    choices = Choices(torch.tensor([[0.0, -torch.inf, 0.0]]).expand(1_000, -1))
    assert set(choices.get_actions().tolist()) == {0, 2}
    torch.testing.assert_close(choices.entropy(), torch.full((1_000,), 2.0).log())


def test_deterministic_actions_are_the_likeliest() -> None:
    assert Choices(LOGITS).get_actions(deterministic=True).tolist() == [1, 0, 2]


def test_on_a_cpu_the_policy_speaks_for_itself() -> None:
    model = build(FastPPO, noise(), batch_size=48)
    assert networks_of(model.policy) is model.policy
