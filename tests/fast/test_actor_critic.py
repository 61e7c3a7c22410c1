"""Discrete actions in few kernels, against torch's own distribution; frames scaled once. Streams: test_cuda.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch.distributions import Categorical

from revd.fast.actor_critic import FastCategorical, gumbel_noise, make_actor_critic
from revd.sb3 import FastPPO
from tests.fast.support import CONTINUOUS, DISCRETE, FRAMES, VECTOR, build, noise

LOGITS = torch.tensor([[0.0, 1.0, -2.0, 0.5], [30.0, -30.0, 0.0, 0.0], [-1e4, 0.0, 1e4, 3.0]])


def test_log_probabilities_and_entropies_are_those_of_torch() -> None:
    logits = LOGITS.clone().requires_grad_()
    actions = torch.tensor([3, 0, 2])
    ours, theirs = FastCategorical(logits), Categorical(logits=logits)
    torch.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    for found, expected in ((ours.log_prob(actions), theirs.log_prob(actions)), (ours.entropy(), theirs.entropy())):
        gradients = [torch.autograd.grad(value.sum(), logits, retain_graph=True)[0] for value in (found, expected)]
        torch.testing.assert_close(*gradients)


def test_actions_are_drawn_with_their_probabilities() -> None:
    torch.manual_seed(0)
    drawn = FastCategorical(LOGITS[:1].expand(40_000, -1)).get_actions()
    found = torch.bincount(drawn, minlength=4) / len(drawn)
    torch.testing.assert_close(found, torch.softmax(LOGITS[0], 0), rtol=0, atol=0.01)


def test_what_is_impossible_is_never_drawn() -> None:
    torch.manual_seed(0)
    choices = FastCategorical(torch.tensor([[0.0, -torch.inf, 0.0]]).expand(1_000, -1))
    assert set(choices.get_actions().tolist()) == {0, 2}
    torch.testing.assert_close(choices.entropy(), torch.full((1_000,), 2.0).log())


def test_deterministic_actions_are_the_likeliest() -> None:
    assert FastCategorical(LOGITS).get_actions(deterministic=True).tolist() == [1, 0, 2]


def test_noise_can_come_from_outside() -> None:
    noise = torch.tensor([[9.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3e4]])
    assert FastCategorical(LOGITS).sample_with(noise).tolist() == [0, 0, 3]
    torch.manual_seed(0)
    drawn = FastCategorical(LOGITS).get_actions()
    torch.manual_seed(0)
    assert torch.equal(drawn, FastCategorical(LOGITS).sample_with(gumbel_noise(torch.empty_like(LOGITS))))


class Forgetful(FlattenExtractor):
    """Draws random numbers as it looks."""

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(super().forward(observations.float()), 0.5)


@pytest.mark.parametrize("space", [VECTOR, FRAMES], ids=["mlp", "cnn"])
@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
@pytest.mark.parametrize("features", [{}, {"features_extractor_class": Forgetful}], ids=["SB3's features", "dropout"])
def test_on_a_cpu_the_numbers_are_the_policys_own_to_the_last_bit(
    space: Any, actions: Any, features: dict[str, Any]
) -> None:
    networks_kwargs = {"share_features_extractor": False, **features}
    model = build(FastPPO, noise(space, actions), batch_size=48, policy_kwargs=networks_kwargs)
    policy, actor_critic = model.policy, make_actor_critic(model.policy)
    assert actor_critic is not policy
    seen = torch.as_tensor(np.stack([space.sample() for _ in range(6)]))
    found, expected = [], []
    for answers, whose in ((found, actor_critic), (expected, policy)):
        torch.manual_seed(0)
        answers += whose.forward(seen)
        answers += whose.evaluate_actions(seen, answers[0].detach())
        policy.optimizer.zero_grad()
        sum(part.sum() for part in answers[-3:]).backward()
        answers += [parameter.grad for parameter in policy.parameters()]
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)


def test_on_a_cpu_a_policy_that_shares_its_features_speaks_for_itself() -> None:
    model = build(FastPPO, noise(), batch_size=48)
    assert make_actor_critic(model.policy) is model.policy


class Peculiar(ActorCriticPolicy):
    """Puts its parts together in another way than SB3."""

    def extract_features(self, obs: Any, features_extractor: Any = None) -> Any:
        return super().extract_features(2 * obs, features_extractor)


def test_a_policy_that_is_put_together_otherwise_speaks_for_itself() -> None:
    model = build(FastPPO, noise(), policy=Peculiar, policy_kwargs={"share_features_extractor": False}, batch_size=48)
    assert make_actor_critic(model.policy) is model.policy
