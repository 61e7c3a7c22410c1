import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import TRPO, MaskablePPO, RecurrentPPO
from sb3_contrib.common.wrappers import ActionMasker
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from revd.fast import FastA2C, FastPPO
from revd.training import algorithms
from revd.training.algorithms import (
    algorithm_class,
    algorithm_parameters,
    is_gpu,
    learn_arguments,
    make_algorithm,
    policy_name,
)
from revd.training.vec_env import make_vec_env

VECTOR = spaces.Box(-1, 1, (3,))
IMAGE = spaces.Box(0, 255, (84, 84, 3), np.uint8)
SMALL_IMAGE = spaces.Box(0, 255, (7, 7, 3), np.uint8)
FIRST = spaces.Box(0, 255, (3, 40, 60), np.uint8)


@pytest.mark.parametrize(
    ("algo", "expected"),
    [
        ("ppo", FastPPO),
        ("a2c", FastA2C),
        ("trpo", TRPO),
        ("recurrent-ppo", RecurrentPPO),
        ("maskable-ppo", MaskablePPO),
    ],
)
def test_every_name_builds_its_class(algo, expected):
    model = make_algorithm(algo, make_vec_env("CartPole-v1", n_envs=2), seed=3)
    assert type(model) is expected
    assert model.seed == 3
    assert model.n_envs == 2
    assert str(model.device) == "cpu"


@pytest.mark.parametrize(
    ("algo", "trainer", "expected"),
    [
        ("ppo", "auto", FastPPO),
        ("ppo", "sb3", PPO),
        ("ppo", "fast", FastPPO),
        ("a2c", "auto", FastA2C),
        ("a2c", "sb3", A2C),
        ("a2c", "fast", FastA2C),
        ("trpo", "auto", TRPO),
    ],
)
def test_the_trainer_decides_whose_algorithm_it_is(algo, trainer, expected):
    assert type(make_algorithm(algo, make_vec_env("CartPole-v1"), seed=0, trainer=trainer)) is expected


@pytest.mark.parametrize(
    ("algo", "trainer", "device", "policy", "fast"),
    [
        ("ppo", "auto", "auto", "CnnPolicy", True),
        ("ppo", "sb3", "auto", "CnnPolicy", False),
        ("ppo", "auto", "auto", "MlpPolicy", True),
        ("a2c", "auto", "cuda", "MlpPolicy", True),
        ("ppo", "auto", "cpu", "CnnPolicy", True),
        ("trpo", "auto", "auto", "CnnPolicy", False),
    ],
)
def test_auto_is_fast_on_every_device(algo, trainer, device, policy, fast, monkeypatch):
    """Looked at from outside, for here may be no GPU to build it on."""
    chosen = {}

    def choose(algo, *, fast=False):
        chosen["fast"] = fast
        return lambda **arguments: None

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(algorithms, "algorithm_parameters", lambda *arguments: {"policy": policy})
    monkeypatch.setattr(algorithms, "algorithm_class", choose)
    make_algorithm(algo, make_vec_env("CartPole-v1"), seed=0, trainer=trainer, device=device)
    assert chosen == {"fast": fast}


@pytest.mark.parametrize("algo", ["trpo", "recurrent-ppo", "maskable-ppo"])
def test_not_every_algorithm_has_a_fast_form(algo):
    with pytest.raises(ValueError, match=rf"trainer 'fast' supports ppo, a2c, not for algo '{algo}'"):
        make_algorithm(algo, make_vec_env("CartPole-v1"), seed=0, trainer="fast")


def test_both_forms_take_the_same_parameters():
    with pytest.raises(ValueError, match="unknown parameter of ppo 'tf32'"):
        make_algorithm("ppo", make_vec_env("CartPole-v1"), seed=0, trainer="fast", parameters={"tf32": True})


@pytest.mark.parametrize(
    ("device", "gpus", "expected"),
    [("auto", True, True), ("auto", False, False), ("cpu", True, False), ("cuda:1", False, True)],
)
def test_which_devices_are_gpus(device, gpus, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus)
    assert is_gpu(device) is expected


def test_rollouts_are_short_enough_for_many_environments():
    assert make_algorithm("ppo", make_vec_env("CartPole-v1"), seed=0).n_steps == 256
    assert make_algorithm("a2c", make_vec_env("CartPole-v1"), seed=0).n_steps == 5


def test_parameters_reach_the_algorithm():
    parameters = {"n_steps": 64, "learning_rate": 0.01, "policy_kwargs": {"net_arch": [7]}}
    model = make_algorithm("ppo", make_vec_env("CartPole-v1"), seed=0, parameters=parameters)
    assert model.n_steps == 64
    assert model.learning_rate == 0.01
    assert model.policy.mlp_extractor.policy_net[0].out_features == 7


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (VECTOR, "MlpPolicy"),
        (spaces.Discrete(5), "MlpPolicy"),
        (IMAGE, "CnnPolicy"),
        (FIRST, "CnnPolicy"),
        (SMALL_IMAGE, "MlpPolicy"),
        (spaces.Dict(image=IMAGE, vector=VECTOR), "MultiInputPolicy"),
    ],
)
def test_the_policy_fits_the_space(space, expected):
    assert policy_name("ppo", space) == expected
    assert policy_name("recurrent-ppo", space) == expected.replace("Policy", "LstmPolicy")


def test_resolved_parameters_hold_defaults_and_overrides():
    resolved = algorithm_parameters("a2c", VECTOR, {"gamma": 0.5, "policy": "Own"})
    assert resolved["gamma"] == 0.5
    assert resolved["policy"] == "Own"
    assert resolved["vf_coef"] == 0.5
    assert not {"env", "seed", "device", "self"} & set(resolved)


def test_unknown_algorithm_names_the_nearest():
    with pytest.raises(ValueError, match=r"unknown algo 'ppoo'; did you mean 'ppo'"):
        algorithm_class("ppoo")


@pytest.mark.parametrize("algo", ["sac", "TD3", "qr-dqn", "cross_q"])
def test_off_policy_algorithms_have_their_own_error(algo):
    message = f"algo '{algo}' is off-policy: .*: ppo, a2c, trpo, recurrent-ppo, maskable-ppo$"
    with pytest.raises(ValueError, match=message):
        algorithm_class(algo)


def test_misspelt_parameter_names_the_nearest():
    with pytest.raises(ValueError, match=r"unknown parameter of ppo 'n_stepss'; did you mean 'n_steps'"):
        make_algorithm("ppo", make_vec_env("CartPole-v1"), seed=0, parameters={"n_stepss": 3})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_steps": "many"}, "n_steps of ppo must be a number, as its default 2048, got 'many'"),
        ({"n_steps": 0}, "n_steps of ppo must be an integer of at least 1, got 0"),
        ({"n_epochs": -2}, "n_epochs of ppo must be an integer of at least 1, got -2"),
        ({"batch_size": 6.5}, "batch_size of ppo must be an integer of at least 1, got 6.5"),
        ({"stats_window_size": -1}, "stats_window_size of ppo must be an integer of at least 0"),
        ({"gamma": 7}, r"gamma of ppo must lie in \[0, 1\], got 7"),
        ({"target_kl": "abc"}, "target_kl of ppo must be a number or null, got 'abc'"),
        ({"policy_kwargs": {"net_arch": "wide"}}, "cannot be built with"),
    ],
)
def test_impossible_values_are_value_errors(parameters, message):
    with pytest.raises(ValueError, match=message):
        make_algorithm("ppo", make_vec_env("CartPole-v1", n_envs=2), seed=0, parameters=parameters)


def test_numpys_numbers_and_schedules_are_taken():
    env = make_vec_env("CartPole-v1", n_envs=2)
    given = {"n_steps": np.int64(32), "batch_size": np.int32(8), "target_kl": np.float32(0.5)}
    model = make_algorithm("ppo", env, seed=0, parameters={**given, "clip_range_vf": lambda left: 0.1 * left})
    assert (model.n_steps, model.batch_size, model.target_kl) == (32, 8, 0.5)
    assert model.clip_range_vf(0.5) == 0.05


def test_counts_may_be_written_with_an_exponent():
    env = make_vec_env("CartPole-v1", n_envs=2)
    model = make_algorithm("ppo", env, seed=0, parameters={"n_steps": 1.6e1, "batch_size": 8.0, "gamma": 1.0})
    assert (model.n_steps, model.batch_size) == (16, 8)
    assert {type(model.n_steps), type(model.batch_size)} == {int}


def test_counts_of_other_algorithms_are_checked():
    with pytest.raises(ValueError, match=r"n_critic_updates of trpo must be an integer of at least 1, got 2\.5"):
        make_algorithm("trpo", make_vec_env("CartPole-v1"), seed=0, parameters={"n_critic_updates": 2.5})


def test_unsupported_action_space_is_a_value_error():
    with pytest.raises(ValueError, match="algo 'maskable-ppo' cannot be built"):
        make_algorithm("maskable-ppo", make_vec_env("Pendulum-v1"), seed=0)


def test_missing_contrib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(ValueError, match=r"algo 'trpo' needs sb3_contrib: pip install 'revd\[contrib\]'"):
        algorithm_class("trpo")
    assert algorithm_class("ppo") is PPO


def test_a_broken_dependency_of_contrib_is_not_mistaken_for_contrib(monkeypatch):
    def broken(package):
        raise ModuleNotFoundError("No module named 'other'", name="other")

    monkeypatch.setattr("revd.training.algorithms.import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="other"):
        algorithm_class("trpo")


@pytest.mark.parametrize(("device", "message"), [("cudda", "got 'cudda'"), ("cuda:99", "there is no device")])
def test_impossible_devices_are_refused(device, message):
    with pytest.raises(ValueError, match=message):
        make_algorithm("ppo", make_vec_env("CartPole-v1"), seed=0, device=device)


def test_only_maskable_ppo_gets_masks():
    masked = DummyVecEnv([lambda: ActionMasker(gymnasium.make("CartPole-v1"), lambda env: np.ones(2, bool))])
    plain = make_vec_env("CartPole-v1")
    assert learn_arguments(make_algorithm("maskable-ppo", masked, seed=0)) == {"use_masking": True}
    assert learn_arguments(make_algorithm("maskable-ppo", plain, seed=0)) == {"use_masking": False}
    assert learn_arguments(make_algorithm("ppo", plain, seed=0)) == {}
