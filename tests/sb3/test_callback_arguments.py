"""What the callback refuses: algorithms, arguments, instances, observations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnvWrapper

from revd import make_reward, register_reward
from revd.rewards import RewardConfig
from revd.sb3 import IntrinsicRewardCallback
from tests.support.environments import counting_envs
from tests.support.sb3 import ScriptedReward, make_model, trained


@pytest.mark.parametrize("algorithm", [SAC, TD3, DQN])
def test_off_policy_algorithms_are_refused(algorithm: Any) -> None:
    action_space = spaces.Discrete(3) if algorithm is DQN else spaces.Box(-1, 1, (2,))
    env = counting_envs(1, action_space=action_space)
    model = algorithm("MlpPolicy", env, buffer_size=10, device="cpu", policy_kwargs={"net_arch": [4]})
    model.set_logger(Logger(folder=None, output_formats=[]))
    with pytest.raises(TypeError, match=f"{algorithm.__name__} does not have; use PPO, A2C, TRPO"):
        model.learn(10, callback=IntrinsicRewardCallback("revd"))
    assert env.get_attr("steps_taken") == [0]


@pytest.mark.parametrize("method", ["revd", "re3"])
def test_too_many_neighbours_are_refused_before_the_first_step(method: str) -> None:
    env = counting_envs(2)
    model = make_model("PPO", env, n_steps=6)
    with pytest.raises(ValueError, match=r"k = 6 neighbours cannot be found in rollouts of n_steps = 6: use k <= 5"):
        model.learn(12, callback=IntrinsicRewardCallback(method, k=6))
    assert env.get_attr("steps_taken") == [0, 0]
    model.learn(24, callback=IntrinsicRewardCallback(method, k=5))
    model.learn(24, callback=IntrinsicRewardCallback(method, k=6, boundary="episode"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": "rvd"}, "unknown reward 'rvd'; did you mean 'revd'"),
        ({"alhpa": 0.5}, "unknown parameter of REVD 'alhpa'; did you mean 'alpha'"),
        ({"wieght": 0.5}, "unknown parameter of REVD 'wieght'; did you mean 'weight'"),
        ({"reward": "re3", "alpha": 0.5}, "unknown parameter of RE3 'alpha'"),
        ({"alpha": 1.0}, r"alpha must be inside \(0, 1\), got 1.0"),
        ({"k": 0}, "k must be an integer of at least 1, got 0"),
        ({"normalize": "std"}, "normalize must be 'none' or 'rms' or 'standard', got 'std'"),
        ({"weight": -0.1}, "^weight must be 'auto' or a number of at least 0, got -0.1"),
        ({"weight": float("nan")}, "^weight must be 'auto' or a number of at least 0, got nan"),
        ({"weight": float("inf")}, "^weight must be 'auto' or a number of at least 0, got inf"),
        ({"strength": -1}, "^strength must be a number of at least 0, got -1"),
        ({"decay": -1e-9}, r"decay must be inside \[0, 1\], got -1e-09"),
        ({"decay": 1.5}, r"decay must be inside \[0, 1\], got 1.5"),
        ({"decay_per": "epoch"}, "decay_per must be 'rollout' or 'step', got 'epoch'"),
        ({"extrinsic_weight": -1.0}, "extrinsic_weight must be a number of at least 0, got -1.0"),
    ],
)
def test_bad_arguments_are_refused_at_construction(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IntrinsicRewardCallback(**arguments)


def test_an_instance_is_used_as_it_is() -> None:
    env = counting_envs(2)
    reward = make_reward("re3", env.observation_space, env.action_space, n_envs=2, k=2, seed=9)
    callback = IntrinsicRewardCallback(reward)
    trained(callback, env=env, seed=1)
    assert callback.reward is reward
    assert reward.config.seed == 9
    assert int(reward.calls) == 3


def test_an_instance_takes_no_parameters_of_its_own() -> None:
    env = counting_envs(2)
    reward = make_reward("re3", env.observation_space, env.action_space, n_envs=2)
    with pytest.raises(ValueError, match="cannot change the RE3 instance"):
        IntrinsicRewardCallback(reward, k=3)


def test_normalize_with_an_instance_is_an_error() -> None:
    env = counting_envs(2)
    reward = make_reward("re3", env.observation_space, env.action_space, n_envs=2, k=2)
    message = r"parameters \(normalize\) cannot change the RE3 instance that was given: pass them to make_reward"
    with pytest.raises(ValueError, match=message):
        IntrinsicRewardCallback(reward, normalize="rms")
    assert reward.config.normalize == "none"
    normalized = make_reward("re3", env.observation_space, env.action_space, n_envs=2, normalize="rms")
    assert IntrinsicRewardCallback(normalized).reward.config.normalize == "rms"


@pytest.mark.parametrize("name", ["weight", "strength", "extrinsic_weight"])
@pytest.mark.parametrize("value", ["0.1", "aut", None, True, -1, float("nan"), float("inf")])
def test_weights_are_numbers(name: str, value: Any) -> None:
    valid = "'auto' or a number of at least 0" if name == "weight" else "a number of at least 0"
    with pytest.raises(ValueError, match=f"^{name} must be {valid}, got {value!r}$"):
        IntrinsicRewardCallback("revd", **{name: value})


def test_a_strength_belongs_to_an_automatic_weight() -> None:
    message = "strength = 0.2 belongs to weight='auto', but weight is 0.1: leave one out"
    with pytest.raises(ValueError, match=message):
        IntrinsicRewardCallback("revd", weight=0.1, strength=0.2)
    assert IntrinsicRewardCallback("revd", weight="auto", strength=0.2).strength == 0.2
    assert IntrinsicRewardCallback("revd", weight=0.3, strength=0.1).weight == 0.3


def test_the_kind_of_weight_is_decided_before_training() -> None:
    automatic, fixed = IntrinsicRewardCallback("revd"), IntrinsicRewardCallback("revd", weight=0.3)
    assert (automatic.weight, automatic.strength) == ("auto", 0.1)
    with pytest.raises(ValueError, match="weight is 'auto' in this training: change strength"):
        automatic.weight = 0.1
    with pytest.raises(ValueError, match=r"weight is 0.3: strength belongs to weight='auto'"):
        fixed.strength = 0.2
    automatic.strength, fixed.weight = 0.5, 0.7
    assert (automatic.weight, automatic.strength, fixed.weight) == ("auto", 0.5, 0.7)


def test_an_instance_for_another_environment_is_refused() -> None:
    env = counting_envs(2)
    reward = make_reward("re3", env.observation_space, env.action_space, n_envs=3)
    with pytest.raises(ValueError, match="made for n_envs 3, not 2"):
        trained(IntrinsicRewardCallback(reward), env=env)
    assert env.get_attr("steps_taken") == [0, 0]


class BrokenSensor(VecEnvWrapper):
    """Its fourth observation of environment 1 is not a number."""

    def reset(self) -> Any:
        self.steps = 0
        return self.venv.reset()

    def step_wait(self) -> Any:
        self.steps += 1
        observations, rewards, dones, infos = self.venv.step_wait()
        if self.steps == 4:
            observations[1] = np.nan
        return observations, rewards, dones, infos


def test_observations_that_are_not_finite_are_named() -> None:
    env = BrokenSensor(counting_envs(2, lengths=((9,), (9,))))
    callback = IntrinsicRewardCallback("re3")
    with pytest.raises(ValueError, match="the observation after step 3 of environment 1 holds a NaN or infinite value"):
        trained(callback, env=env, n_steps=4)
    assert (callback.rollouts, callback.steps, int(callback.reward.calls)) == (0, 0, 0)


class BrokenLastSensor(VecEnvWrapper):
    """Terminal observations of environment 1 are NaN."""

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        observations, rewards, dones, infos = self.venv.step_wait()
        if dones[1]:
            infos[1]["terminal_observation"] = np.full_like(infos[1]["terminal_observation"], np.nan)
        return observations, rewards, dones, infos


@pytest.mark.parametrize("weight", [0.1, "auto"])
@pytest.mark.parametrize("method", ["re3", "ride"])
def test_terminal_observations_that_are_not_finite_are_named(method: str, weight: Any) -> None:
    env = BrokenLastSensor(counting_envs(2, lengths=((9,), (3,)), truncate=True))
    callback = IntrinsicRewardCallback(method, k=2, weight=weight)
    with pytest.raises(ValueError, match="an episode ran out of time at step 2 of environment 1 is not finite"):
        trained(callback, env=env, n_steps=6)
    assert (callback.rollouts, int(callback.reward.calls)) == (0, 0)


@pytest.mark.parametrize("weight", [0.1, "auto"])
def test_a_policy_that_has_diverged_is_named(weight: Any) -> None:
    """Observations and rewards are finite, and so is the bonus."""
    model = make_model("PPO", counting_envs(2), n_steps=6)
    callback = IntrinsicRewardCallback("re3", k=2, weight=weight)
    model.learn(12, callback=callback)
    with torch.no_grad():
        model.policy.value_net.bias.fill_(torch.nan)
    with pytest.raises(ValueError, match=r"the policy's values of the current observations are \[nan, nan\]"):
        model.learn(12, callback=callback)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("strength", -1, "^strength must be a number of at least 0, got -1"),
        ("strength", float("nan"), "^strength must be a number of at least 0, got nan"),
        ("decay", 5, r"^decay must be inside \[0, 1\], got 5"),
        ("decay_per", "rolout", "^decay_per must be 'rollout' or 'step', got 'rolout'"),
        ("extrinsic_weight", -1.0, "^extrinsic_weight must be a number of at least 0, got -1.0"),
    ],
)
def test_what_is_changed_between_rollouts_is_checked(name: str, value: Any, message: str) -> None:
    callback = IntrinsicRewardCallback("revd")
    before = getattr(callback, name)
    with pytest.raises(ValueError, match=message):
        setattr(callback, name, value)
    assert getattr(callback, name) == before


@pytest.mark.parametrize("value", [-1.0, "auto"])
def test_a_fixed_weight_stays_a_number(value: Any) -> None:
    callback = IntrinsicRewardCallback("revd", weight=0.5)
    with pytest.raises(ValueError, match=f"^weight must be a number of at least 0, got {value!r}"):
        callback.weight = value
    assert callback.weight == 0.5


def test_a_callback_that_was_trained_elsewhere_says_what_to_do() -> None:
    callback = IntrinsicRewardCallback("re3", k=2)
    trained(callback)
    with pytest.raises(ValueError, match=r"n_envs 2, not 3\. The callback made it in an earlier learn\(\): pass a new"):
        trained(callback, env=counting_envs(3))


def test_a_parameter_with_the_name_of_a_keyword_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Config(RewardConfig):
        decay: float = 0.5

    class Fading(ScriptedReward):
        config_type = Config

    register_reward("fading", Fading)
    with pytest.raises(ValueError, match="the parameter 'decay' of Fading has the name of another keyword here"):
        IntrinsicRewardCallback("fading", decay=0.9)
    space = counting_envs(2).observation_space
    assert make_reward("fading", space, spaces.Discrete(2), n_envs=2, decay=0.9).config.decay == 0.9  # type: ignore[attr-defined]


def test_the_hint_for_a_mixture_names_a_member_that_has_the_parameter() -> None:
    with pytest.raises(ValueError, match="did you mean 'weight'") as misspelt:
        IntrinsicRewardCallback(["revd", "re3"], wieght=5)
    assert "under its name" not in str(misspelt.value)
    with pytest.raises(ValueError, match=r"under its name: re3=\{'log': …\}"):
        IntrinsicRewardCallback(["revd", "re3"], log=False)
