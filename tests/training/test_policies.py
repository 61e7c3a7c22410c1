import json

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from torch import nn

from revd.training.algorithms import make_algorithm
from revd.training.policies import FixedBatchNorm2d, PaperCNN, PaperCnnPolicy, paper_policy, policy_class
from tests.support.environments import counting_envs

FRAMES = spaces.Box(0, 255, (4, 84, 84), np.uint8)
SMALL = spaces.Box(0, 255, (4, 36, 36), np.uint8)  # small networks are made quickly
VECTOR = spaces.Box(-1, 1, (8,))


def layers(module):
    return [entry for entry in module.modules() if not list(entry.children())]


def model(batch_norm, algo="ppo"):
    name, kwargs = paper_policy(SMALL, batch_norm=batch_norm)
    env = counting_envs(2, observation_space=SMALL, action_space=spaces.Discrete(6))
    parameters = {"policy": name, "policy_kwargs": kwargs, "n_steps": 8}
    if algo == "ppo":
        parameters |= {"batch_size": 8, "n_epochs": 1}
    return make_algorithm(algo, env, seed=1, device="cpu", parameters=parameters)


@pytest.mark.parametrize("batch_norm", ["train", "eval"])
def test_the_cnn_is_the_papers(batch_norm):
    found = layers(PaperCNN(FRAMES, batch_norm))
    norm = nn.BatchNorm2d if batch_norm == "train" else FixedBatchNorm2d
    kinds = [nn.Conv2d, norm, nn.ReLU] * 3 + [nn.Flatten, nn.Linear, nn.ReLU]
    assert [type(layer) for layer in found] == kinds
    convolutions = [layer for layer in found if isinstance(layer, nn.Conv2d)]
    described = [(c.in_channels, c.out_channels, c.kernel_size[0], c.stride[0]) for c in convolutions]
    assert described == [(4, 32, 8, 4), (32, 64, 4, 2), (64, 32, 3, 1)]
    assert (found[-2].in_features, found[-2].out_features) == (32 * 7 * 7, 512)


def test_without_batch_norm_the_rest_is_the_same():
    kinds = [type(layer) for layer in layers(PaperCNN(FRAMES, "off"))]
    assert kinds == [nn.Conv2d, nn.ReLU] * 3 + [nn.Flatten, nn.Linear, nn.ReLU]


def test_building_it_leaves_no_trace_in_the_statistics():
    for layer in layers(PaperCNN(FRAMES, "train")):
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.training
            assert int(layer.num_batches_tracked) == 0


def test_policy_and_value_share_nothing():
    policy = model("train").policy
    assert isinstance(policy, PaperCnnPolicy)
    actions = {id(p) for p in [*policy.pi_features_extractor.parameters(), *policy.action_net.parameters()]}
    value = {id(p) for p in [*policy.vf_features_extractor.parameters(), *policy.value_net.parameters()]}
    assert not actions & value
    assert actions | value == {id(p) for p in policy.parameters()}
    assert (policy.action_net.in_features, policy.action_net.out_features) == (512, 6)
    assert (policy.value_net.in_features, policy.value_net.out_features) == (512, 1)


def log_probabilities(policy, observations, training):
    policy.set_training_mode(training)
    with torch.no_grad():
        return policy.get_distribution(observations).distribution.logits


@pytest.mark.parametrize(("batch_norm", "same"), [("train", False), ("eval", True), ("off", True)])
def test_whether_acting_and_learning_see_the_same_network(batch_norm, same):
    policy = model(batch_norm).policy
    generator = torch.Generator().manual_seed(0)
    observations = torch.randint(0, 256, (16, *SMALL.shape), dtype=torch.uint8, generator=generator)
    acting = log_probabilities(policy, observations, training=False)
    learning = log_probabilities(policy, observations, training=True)
    assert torch.equal(acting, learning) == same


@pytest.mark.parametrize("batch_norm", ["train", "eval", "off"])
@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_it_learns_and_goes_through_a_file(algo, batch_norm, tmp_path):
    trained = model(batch_norm, algo)
    before = [parameter.clone() for parameter in trained.policy.parameters()]
    trained.learn(32)
    after = list(trained.policy.parameters())
    assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    trained.save(tmp_path / "model")
    loaded = {"ppo": PPO, "a2c": A2C}[algo].load(tmp_path / "model", device="cpu")
    observation = SMALL.sample()
    assert isinstance(loaded.policy, PaperCnnPolicy)
    assert loaded.predict(observation, deterministic=True) == trained.predict(observation, deterministic=True)


def test_the_mlp_is_the_papers():
    name, kwargs = paper_policy(VECTOR)
    env = counting_envs(2, observation_space=VECTOR, action_space=spaces.Box(-1, 1, (3,)))
    parameters = {"policy": name, "policy_kwargs": kwargs, "n_steps": 8, "batch_size": 8}
    policy = make_algorithm("ppo", env, seed=0, parameters=parameters).policy
    for network, head, outputs in (("policy_net", "action_net", 3), ("value_net", "value_net", 1)):
        found = [*layers(getattr(policy.mlp_extractor, network)), getattr(policy, head)]
        assert [type(layer) for layer in found] == [nn.Linear, nn.Tanh, nn.Linear, nn.Tanh, nn.Linear]
        assert [layer.out_features for layer in found if isinstance(layer, nn.Linear)] == [64, 64, outputs]
    assert policy.log_std.shape == (3,), "a Gaussian distribution"


def test_a_policy_is_described_by_json():
    for space in (FRAMES, VECTOR, spaces.Dict(frames=FRAMES, vector=VECTOR)):
        described = paper_policy(space)
        assert json.loads(json.dumps(described)) == list(described)
    assert paper_policy(FRAMES, batch_norm="off") == ("PaperCnnPolicy", {"batch_norm": "off"})
    assert paper_policy(spaces.Dict(frames=FRAMES))[0] == "MultiInputPolicy"


def test_names_of_sb3_stay_names():
    assert policy_class("PaperCnnPolicy") is PaperCnnPolicy
    assert policy_class("CnnPolicy") == "CnnPolicy"


def test_unknown_values_of_batch_norm():
    for call in (lambda: paper_policy(FRAMES, batch_norm="on"), lambda: PaperCNN(FRAMES, "on")):
        with pytest.raises(ValueError, match=r"unknown value of batch_norm 'on' \(valid: eval, off, train\)"):
            call()


def test_batch_norm_is_refused_where_there_are_no_convolutions():
    with pytest.raises(ValueError, match=r"batch_norm is 'eval', but it follows convolutions, .*; use 'off'"):
        paper_policy(spaces.Box(-1, 1, (3,)), batch_norm="eval")
