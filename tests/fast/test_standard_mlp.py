"""What keeps a policy on the general path; there, too, the training is SB3's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

from revd.fast.mlp_update import MlpUpdate
from revd.fast.standard_mlp import is_standard_mlp
from revd.sb3 import FastPPO
from tests.fast.support import CONTINUOUS, DISCRETE, FRAMES, VECTOR, build, noise, parameters

pytestmark = pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")


class OwnForward(ActorCriticPolicy):
    def forward(self, obs: Any, deterministic: bool = False) -> Any:
        return super().forward(obs, deterministic)


class OwnExtractor(FlattenExtractor):
    pass


class OwnMlp(ActorCriticPolicy):
    def _build_mlp_extractor(self) -> None:
        super()._build_mlp_extractor()
        self.mlp_extractor.policy_net.append(nn.Dropout(0.0))


BUILT: dict[str, dict[str, Any]] = {
    "another activation": {"policy_kwargs": {"activation_fn": nn.ReLU}},
    "an extractor": {"policy_kwargs": {"features_extractor_class": OwnExtractor}},
    "a forward": {"policy": OwnForward},
    "a layer": {"policy": OwnMlp},
    "gSDE": {"use_sde": True, "action_space": CONTINUOUS},
    "several choices": {"action_space": spaces.MultiDiscrete([3, 2])},
    "bits": {"action_space": spaces.MultiBinary(2)},
    "numbers as observations": {"space": spaces.Discrete(5)},
    "a dictionary": {"space": spaces.Dict({"place": VECTOR}), "policy": "MultiInputPolicy"},
    "convolutions": {"space": FRAMES, "policy": "CnnPolicy"},
}


def make(kind: Any, *, space: Any = VECTOR, action_space: Any = DISCRETE, **arguments: Any) -> Any:
    arguments = {"policy": "MlpPolicy", "batch_size": 24, "n_epochs": 2, **arguments}
    return build(kind, noise(space, action_space), **arguments)


@pytest.mark.parametrize("case", BUILT)
def test_other_policies_take_the_general_path(case: str) -> None:
    learnt = []
    for kind in (FastPPO, PPO):
        model = make(kind, **BUILT[case])
        assert not is_standard_mlp(model.policy)
        model.policy.to(memory_format=torch.channels_last)
        model.learn(2 * 48)
        assert not (kind is FastPPO and isinstance(model._update, MlpUpdate))
        learnt.append(parameters(model))
    assert torch.equal(*learnt)


def freeze(policy: Any) -> None:
    policy.value_net.bias.requires_grad_(False)


def share(policy: Any) -> None:
    policy.mlp_extractor.value_net[2].weight = policy.mlp_extractor.policy_net[2].weight


def add_parameter(policy: Any) -> None:
    policy.temperature = nn.Parameter(torch.ones(()))


def hook_forward(policy: Any) -> None:
    policy.action_net.register_forward_hook(lambda module, inputs, output: output * 1.5)


def hook_before_forward(policy: Any) -> None:
    policy.value_net.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 0.5,))


def hook_backward(policy: Any) -> None:
    policy.value_net.register_full_backward_hook(lambda module, by_inputs, by_outputs: (by_inputs[0] * 2,))


def hook_gradient(policy: Any) -> None:
    policy.value_net.weight.register_hook(lambda gradient: gradient * 2)


def _double(parameter: Any) -> None:
    parameter.grad.mul_(2)


def hook_accumulation(policy: Any) -> None:
    policy.value_net.weight.register_post_accumulate_grad_hook(_double)


def replace_layer(policy: Any) -> None:
    policy.mlp_extractor.policy_net[1] = nn.Sigmoid()


def replace_method(policy: Any) -> None:
    layer = policy.action_net
    layer.forward = lambda inputs: nn.functional.linear(inputs, layer.weight, layer.bias * 2)


def parametrize(policy: Any) -> None:
    nn.utils.parametrizations.weight_norm(policy.value_net)


def share_module(policy: Any) -> None:
    policy.mlp_extractor.value_net = policy.mlp_extractor.policy_net
    policy.optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4, eps=1e-5)


CHANGES: list[Callable[[Any], None]] = [
    freeze,
    share,
    share_module,
    add_parameter,
    hook_forward,
    hook_before_forward,
    hook_backward,
    hook_gradient,
    hook_accumulation,
    replace_layer,
    replace_method,
    parametrize,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_policy_that_is_changed_while_it_learns_takes_the_general_path(change: Callable[[Any], None]) -> None:
    learnt = []
    for kind in (FastPPO, PPO):
        model = make(kind).learn(48)
        if kind is FastPPO:
            assert isinstance(model._update, MlpUpdate)
        change(model.policy)
        model.learn(2 * 48)
        if kind is FastPPO:
            assert not isinstance(model._update, MlpUpdate)
        learnt.append(parameters(model))
    assert torch.equal(*learnt)


@pytest.mark.parametrize("new_optimizer", [True, False])
def test_a_layer_that_is_replaced_between_trainings_is_trained(new_optimizer: bool) -> None:
    """Such as a new head. With the old optimiser it stays as it is, in SB3 too."""
    learnt = []
    for kind in (FastPPO, PPO):
        model = make(kind).learn(48)
        torch.manual_seed(3)
        policy = model.policy
        policy.action_net = nn.Linear(policy.action_net.in_features, policy.action_net.out_features)
        before = policy.action_net.weight.clone()
        if new_optimizer:
            policy.optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4, eps=1e-5)
        model.learn(2 * 48)
        assert torch.equal(before, policy.action_net.weight) is not new_optimizer
        learnt.append(parameters(model))
    assert torch.equal(*learnt)


def test_a_policy_without_the_layers_is_not_standard() -> None:
    class Own(ActorCriticPolicy):
        def _build(self, lr_schedule: Any) -> None:
            self.whole = nn.Linear(3, 4)
            self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1))

        def forward(self, obs: Any, deterministic: bool = False) -> Any:
            raise NotImplementedError

    policy = Own(VECTOR, DISCRETE, lambda _: 1e-3)
    assert not is_standard_mlp(policy)


def test_global_hooks_and_autocasting_are_seen() -> None:
    policy = make(FastPPO).policy
    assert is_standard_mlp(policy)
    handle = nn.modules.module.register_module_forward_hook(lambda module, inputs, output: None)
    try:
        assert not is_standard_mlp(policy)
    finally:
        handle.remove()
    with torch.autocast("cpu"):
        assert not is_standard_mlp(policy)
    assert is_standard_mlp(policy)


def test_another_number_type_is_seen() -> None:
    policy = make(FastPPO).policy
    assert not is_standard_mlp(policy.double())


def test_target_kl_takes_the_general_path() -> None:
    model = make(FastPPO, target_kl=10.0).learn(48)
    assert is_standard_mlp(model.policy)
    assert not isinstance(model._update, MlpUpdate)


def test_calls_of_a_callback_get_the_policys_own_answer() -> None:
    answers = []
    for kind in (PPO, FastPPO):
        model = make(kind)
        observations = torch.as_tensor(np.stack([VECTOR.sample() * 0 for _ in range(2)]))

        def ask(local: Any, _: Any, observations: Any = observations) -> bool:
            policy = local["self"].policy
            values = policy(observations)[1]
            with torch.no_grad():
                best = policy(observations, deterministic=True)[0]
            answers.append((values.requires_grad, best.tolist()))
            return True

        model.learn(48, callback=ask)
        assert "forward" not in vars(model.policy)
    half = len(answers) // 2
    assert answers[:half] == answers[half:]
