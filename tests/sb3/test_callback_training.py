"""Whole trainings with the bonus: every kind of space, weights, logs, warnings, seeds, company."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
)
from stable_baselines3.common.logger import Logger, configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper, VecFrameStack, VecNormalize

from revd import make_reward
from revd.sb3 import IntrinsicRewardCallback
from tests.support.environments import CountingEnv, counting_envs
from tests.support.sb3 import ALGORITHMS, flat_parameters, make_model, scripted_reward

METHODS = ("revd", "re3", "ride")
BOX = spaces.Box(-np.inf, np.inf, (3,))
IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)
OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "box": BOX,
    "float64": spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
    "image": IMAGE,
    "small image": spaces.Box(0, 255, (7, 7, 3), np.uint8),
    "discrete": spaces.Discrete(11),
    "multi-discrete": spaces.MultiDiscrete([5, 7]),
    "multi-binary": spaces.MultiBinary(4),
    "dict": spaces.Dict({"position": BOX, "camera": IMAGE, "level": spaces.Discrete(5)}),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-1, 1, (2,)),
    "matrix": spaces.Box(-1, 1, (2, 2)),
    "multi-discrete": spaces.MultiDiscrete([3, 2]),
    "multi-binary": spaces.MultiBinary(2),
}


def trained(callback: Any = None, *, algo: str = "PPO", rollouts: int = 3, env: Any = None, **arguments: Any) -> Any:
    env = env or counting_envs(2, truncate=True)
    policy = "MultiInputPolicy" if isinstance(env.observation_space, spaces.Dict) else "MlpPolicy"
    model = make_model(algo, env, **{"policy": policy, "n_steps": 6, **arguments})
    return model.learn(rollouts * model.n_steps * env.num_envs, callback=callback)


def scripted_callback(env: Any, table: np.ndarray | None = None, **arguments: Any) -> Any:
    class Model:
        observation_space, action_space, n_envs = env.observation_space, env.action_space, env.num_envs

    return IntrinsicRewardCallback(scripted_reward(Model, table), **arguments)


def assert_trained(callback: IntrinsicRewardCallback, rollouts: int = 3) -> None:
    assert callback.rollouts == rollouts
    assert all(np.isfinite(value) for value in callback.latest.values())
    assert callback.latest["bonus_mean"] > 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("space", OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_every_observation_space_trains(method: str, space: spaces.Space[Any]) -> None:
    callback = IntrinsicRewardCallback(method, embedding_size=8)
    trained(callback, env=counting_envs(2, observation_space=space))
    assert_trained(callback)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("space", ACTIONS.values(), ids=ACTIONS)
def test_every_action_space_trains(method: str, space: spaces.Space[Any]) -> None:
    callback = IntrinsicRewardCallback(method, embedding_size=8)
    trained(callback, env=counting_envs(2, action_space=space))
    assert_trained(callback)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("space", [BOX, spaces.Dict({"a": BOX, "b": BOX})], ids=["box", "dict"])
def test_normalized_environments_train(method: str, space: spaces.Space[Any]) -> None:
    callback = IntrinsicRewardCallback(method, embedding_size=8)
    trained(callback, env=VecNormalize(counting_envs(2, observation_space=space)))
    assert_trained(callback)


@pytest.mark.parametrize("method", METHODS)
def test_convolutional_policies_train_on_stacked_frames(method: str) -> None:
    callback = IntrinsicRewardCallback(method, embedding_size=8)
    env = VecFrameStack(counting_envs(2, observation_space=IMAGE), 2)
    trained(callback, env=env, policy="CnnPolicy", policy_kwargs={"features_extractor_kwargs": {"features_dim": 8}})
    assert_trained(callback)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_trains_with_every_method(algo: str, method: str) -> None:
    callback = IntrinsicRewardCallback(method, normalize="rms", embedding_size=8)
    trained(callback, algo=algo)
    assert_trained(callback)


def test_a2c_with_its_default_of_five_steps() -> None:
    callback = IntrinsicRewardCallback()
    model = A2C("MlpPolicy", counting_envs(1), device="cpu")
    model.set_logger(Logger(folder=None, output_formats=[]))
    model.learn(20, callback=callback)
    assert callback.rollouts == 4
    assert callback.latest["bonus_mean"] > 0


@pytest.mark.parametrize("use_sde", [True, False], ids=["gSDE", "gaussian"])
def test_squashed_and_state_dependent_noise(use_sde: bool) -> None:
    callback = IntrinsicRewardCallback("ride")
    arguments = {"use_sde": True, "policy_kwargs": {"squash_output": True}} if use_sde else {}
    trained(callback, env=counting_envs(2, action_space=ACTIONS["box"]), **arguments)
    assert_trained(callback)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_bonus_changes_the_policy(algo: str) -> None:
    paid = flat_parameters(trained(IntrinsicRewardCallback("re3", weight=1.0), algo=algo))
    assert not torch.equal(paid, flat_parameters(trained(None, algo=algo)))


@pytest.mark.parametrize("algo", ALGORITHMS)
@pytest.mark.parametrize("method", METHODS)
def test_a_weight_of_zero_changes_nothing_at_all(algo: str, method: str) -> None:
    """No random number of SB3's is consumed, no advantage moves by a bit, on tasks that time out too."""
    watched = trained(IntrinsicRewardCallback(method, weight=0.0), algo=algo)
    assert torch.equal(flat_parameters(watched), flat_parameters(trained(None, algo=algo)))


@pytest.mark.parametrize("method", METHODS)
def test_equal_seeds_train_equally(method: str) -> None:
    first, second, other = (
        trained(IntrinsicRewardCallback(method, weight=1.0), seed=seed, rollouts=4) for seed in (3, 3, 4)
    )
    assert torch.equal(flat_parameters(first), flat_parameters(second))
    assert not torch.equal(flat_parameters(first), flat_parameters(other))


def encoder_weights(callback: IntrinsicRewardCallback) -> torch.Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in callback.reward.encoder.parameters()])


def test_the_rewards_seed_is_the_models_unless_given() -> None:
    seeds = [({}, 5), ({}, 6), ({"seed": 6}, 5)]
    weights = []
    for parameters, seed in seeds:
        callback = IntrinsicRewardCallback("re3", **parameters)
        trained(callback, seed=seed, rollouts=1)
        weights.append(encoder_weights(callback))
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(weights[1], weights[2])


def test_a_model_without_a_seed_trains() -> None:
    callback = IntrinsicRewardCallback("re3")
    trained(callback, seed=None)
    assert_trained(callback)


class LatestOfEachRollout(BaseCallback):
    """Keeps what the bonus's callback, earlier in the list, and the logger say after each rollout."""

    def __init__(self, source: IntrinsicRewardCallback) -> None:
        super().__init__()
        self.source = source
        self.latest: list[dict[str, float]] = []
        self.logged: list[dict[str, Any]] = []
        self.rewards: list[np.ndarray] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.latest.append(dict(self.source.latest))
        self.logged.append(dict(self.logger.name_to_value))
        self.rewards.append(self.model.rollout_buffer.rewards.copy())  # type: ignore[attr-defined]


@pytest.mark.parametrize("decay", [0.0, 1e-5, 0.25, 1.0])
def test_the_weight_decays_per_rollout(decay: float) -> None:
    env = counting_envs(2, reward=lambda number: 0.0)
    callback = scripted_callback(env, np.ones((6, 2)), weight=0.3, decay=decay)
    watch = LatestOfEachRollout(callback)
    trained([callback, watch], env=env, rollouts=5)
    for number, (latest, logged, rewards) in enumerate(zip(watch.latest, watch.logged, watch.rewards, strict=True), 1):
        expected = 0.3 * (1 - decay) ** number
        assert latest["weight"] == pytest.approx(expected, rel=1e-12)
        assert logged["exploration/weight"] == latest["weight"]
        np.testing.assert_array_equal(rewards, np.float32(expected))


def test_the_weight_decays_per_step() -> None:
    """Row i of a rollout is step (steps before) + (i + 1) n_envs."""
    env = counting_envs(2, reward=lambda number: 0.0)
    callback = scripted_callback(env, np.ones((6, 2)), weight=0.3, decay=0.01, decay_per="step")
    watch = LatestOfEachRollout(callback)
    trained([callback, watch], env=env, rollouts=3)
    for index, rewards in enumerate(watch.rewards):
        steps = 12 * index + 2 * np.arange(1, 7)
        expected = 0.3 * 0.99**steps
        np.testing.assert_allclose(rewards, np.repeat(expected[:, None], 2, axis=1), rtol=1e-6)
        assert watch.latest[index]["weight"] == pytest.approx(expected[-1], rel=1e-12)
        assert watch.logged[index]["exploration/weight"] == watch.latest[index]["weight"]
    assert callback.steps == 36


def test_what_is_logged_about_the_balance() -> None:
    env = counting_envs(2, reward=lambda number: float(number % 3))
    table = np.random.default_rng(0).normal(size=(6, 2))
    callback = scripted_callback(env, table, weight=0.5, decay=0.1, extrinsic_weight=2.0)
    trained(callback, env=env, rollouts=1)
    # Numbers by hand: the environments show 0 … and 100 …, with episodes of 4 and 3 steps.
    numbers = np.array([[1, 2, 3, 4, 6, 7], [101, 102, 103, 105, 106, 107]]).T
    extrinsic = 2.0 * (numbers % 3)
    bonus = 0.45 * table
    share = np.abs(bonus).sum() / (np.abs(bonus).sum() + np.abs(extrinsic).sum())
    assert callback.latest["bonus_mean"] == pytest.approx(table.mean(), rel=1e-5)
    assert callback.latest["bonus_share"] == pytest.approx(share, rel=1e-5)
    assert callback.latest["std_ratio"] == pytest.approx(bonus.std() / extrinsic.std(), rel=1e-5)
    assert 0 < callback.latest["time_fraction"] <= 1


def test_models_are_trained_after_the_bonus_has_been_computed() -> None:
    env = counting_envs(2)
    callback = scripted_callback(env)
    trained(callback, env=env, rollouts=3)
    assert callback.reward.updated == [1, 2, 3]
    assert callback.latest["loss"] == 0.25


def test_the_fraction_of_time_that_the_bonus_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that moves by 1 a step and by 3 when the bonus is computed: 3 of 6 + 3 in every rollout."""
    env = counting_envs(2)
    callback = scripted_callback(env)
    clock = [1000.0]
    monkeypatch.setattr("revd.sb3.callback.time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def advance(seconds: float, function: Any) -> Any:
        def advanced(*arguments: Any) -> Any:
            clock[0] += seconds
            return function(*arguments)

        return advanced

    monkeypatch.setattr(env, "step_wait", advance(1, env.step_wait))
    monkeypatch.setattr(callback.reward, "bonus", advance(3, callback.reward.bonus))
    watch = LatestOfEachRollout(callback)
    model = trained([callback, watch], env=env, rollouts=2)
    clock[0] += 1000  # between two learn() nobody waits for the bonus
    model.learn(24, callback=[callback, watch])
    assert [latest["time_fraction"] for latest in watch.latest] == [pytest.approx(1 / 3)] * 4


def test_a_time_out_bootstrap_is_no_extrinsic_reward() -> None:
    """V(terminal) varies; the task's reward, a constant, does not, and its share is that of the constant."""
    env = counting_envs(2, truncate=True, reward=lambda number: -1.0)
    callback = scripted_callback(env, np.ones((6, 2)), weight=1.0, decay=0.0)
    trained(callback, env=env, rollouts=1)
    assert "std_ratio" not in callback.latest
    assert callback.latest["bonus_share"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("method", "metrics"),
    [
        ("revd", {"divergence", "spread", "discrepancy", "duplicates"}),
        ("re3", {"distance"}),
        ("ride", {"impact", "count", "forward_loss", "inverse_loss"}),
    ],
)
@pytest.mark.parametrize("varies", [True, False])
def test_the_log_file_has_it_all(method: str, metrics: set[str], varies: bool, tmp_path: Path) -> None:
    env = counting_envs(2, reward=(lambda number: float(number % 2)) if varies else (lambda number: -1.0))
    model = make_model("PPO", env, n_steps=6)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(36, callback=IntrinsicRewardCallback(method))
    model.logger.close()
    with open(tmp_path / "progress.csv") as file:
        rows = list(csv.DictReader(file))
    names = {"bonus_mean", "weight", "bonus_share", "time_fraction", *metrics} | ({"std_ratio"} if varies else set())
    logged = {name.removeprefix("exploration/") for name in rows[-1] if name.startswith("exploration/")}
    assert names <= logged
    assert ("std_ratio" in logged) == varies
    for row in rows:
        assert 0 < float(row["exploration/time_fraction"]) <= 1
        assert 0 <= float(row["exploration/bonus_share"]) <= 1
    assert all(np.isfinite(float(rows[-1][f"exploration/{name}"])) for name in names)


def warnings_of(table: np.ndarray, reward: Any, rollouts: int, **arguments: Any) -> list[str]:
    env = counting_envs(2, reward=reward)
    callback = scripted_callback(env, table, **arguments)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(callback, algo="A2C", env=env, rollouts=rollouts, n_steps=4)
    return [str(entry.message) for entry in caught]


WAVE = np.array([[1.0, -1.0]] * 4)


def test_a_negligible_bonus_is_warned_about_once() -> None:
    assert warnings_of(1e-3 * WAVE, lambda number: number % 2, 19) == []
    (message,) = warnings_of(1e-3 * WAVE, lambda number: number % 2, 45)
    assert "does not steer" in message
    assert "Raise weight" in message


def test_a_drowning_bonus_is_warned_about_once() -> None:
    assert warnings_of(1e3 * WAVE, lambda number: number % 2, 19) == []
    (message,) = warnings_of(1e3 * WAVE, lambda number: number % 2, 45)
    assert "drowns" in message
    assert "Lower weight" in message


def test_no_warning_while_the_task_says_nothing() -> None:
    assert warnings_of(1e3 * WAVE, lambda number: 0.0, 25) == []
    assert warnings_of(1e5 * WAVE, lambda number: -1.0, 25) == []


def test_no_warning_when_the_task_is_left_out_on_purpose() -> None:
    assert warnings_of(1e3 * WAVE, lambda number: number % 2, 25, extrinsic_weight=0.0) == []
    assert warnings_of(0 * WAVE, lambda number: number % 2, 25, extrinsic_weight=0.0) == []


def test_no_warning_when_there_is_no_bonus_on_purpose() -> None:
    assert warnings_of(WAVE, lambda number: number % 2, 25, weight=0.0) == []


def test_no_warning_for_what_decay_does() -> None:
    assert warnings_of(3 * WAVE, lambda number: number % 2, 45, decay=0.5) == []
    # Drowning for the first rollouts only.
    assert warnings_of(1e3 * WAVE, lambda number: number % 2, 45, decay=0.7) == []


def company(tmp_path: Path) -> list[BaseCallback]:
    return [
        CheckpointCallback(save_freq=5, save_path=str(tmp_path / "checkpoints")),
        EvalCallback(DummyVecEnv([lambda: Monitor(CountingEnv())]), n_eval_episodes=2, eval_freq=5, verbose=0),
    ]


@pytest.mark.parametrize("algo", ["PPO", "A2C", "TRPO"])
def test_beside_other_callbacks_in_either_order(algo: str, tmp_path: Path) -> None:
    def parameters(before: list[BaseCallback], after: list[BaseCallback]) -> torch.Tensor:
        bonus = IntrinsicRewardCallback("revd", weight=1.0)
        return flat_parameters(trained([*before, bonus, *after], algo=algo, rollouts=4))

    alone = parameters([], [])
    assert torch.equal(parameters(company(tmp_path), []), alone)
    assert torch.equal(parameters([], company(tmp_path)), alone)
    assert list((tmp_path / "checkpoints").iterdir())


def test_two_of_them_add_up() -> None:
    env = counting_envs(2, truncate=True)
    first, second = (scripted_callback(env, value * np.ones((6, 2)), decay=0.0, weight=1.0) for value in (1, 10))
    watch = LatestOfEachRollout(second)
    trained([first, second, watch], env=env, rollouts=1)
    env = counting_envs(2, truncate=True)
    both = scripted_callback(env, 11 * np.ones((6, 2)), decay=0.0, weight=1.0)
    expected = LatestOfEachRollout(both)
    trained([both, expected], env=env, rollouts=1)
    np.testing.assert_allclose(watch.rewards, expected.rewards, rtol=1e-6)


@pytest.mark.parametrize("nested", [False, True], ids=["child", "grandchild"])
def test_as_the_child_of_an_event_it_refuses(nested: bool) -> None:
    """EventCallback passes on neither the start nor the end of a rollout: the bonus would silently never be paid."""
    env = counting_envs(2)
    child: BaseCallback = IntrinsicRewardCallback("revd")
    if nested:
        child = CallbackList([child])
    with pytest.raises(RuntimeError, match=r"learn\(\) itself or in a list, not as the child"):
        trained([EveryNTimesteps(2, child)], env=env)
    assert env.get_attr("steps_taken") == [0, 0]


def test_a_rollout_it_has_not_seen_whole_is_refused() -> None:
    class EverySecondStep(BaseCallback):
        def __init__(self, child: BaseCallback) -> None:
            super().__init__()
            self.child = child

        def _init_callback(self) -> None:
            self.child.init_callback(self.model)

        def _on_rollout_start(self) -> None:
            self.child.on_rollout_start()

        def _on_step(self) -> bool:
            self.child.update_locals(self.locals)
            return self.n_calls % 2 == 0 or self.child.on_step()

        def _on_rollout_end(self) -> None:
            self.child.on_rollout_end()

    with pytest.raises(RuntimeError, match="saw 3 of 6 steps of the rollout"):
        trained(EverySecondStep(IntrinsicRewardCallback("revd")))


@pytest.mark.parametrize("algorithm", [SAC, TD3, DQN])
def test_off_policy_algorithms_are_refused(algorithm: Any) -> None:
    action_space = ACTIONS["discrete" if algorithm is DQN else "box"]
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
        ({"reward": "re3", "alpha": 0.5}, "unknown parameter of RE3 'alpha'"),
        ({"alpha": 1.0}, r"alpha must be inside \(0, 1\), got 1.0"),
        ({"k": 0}, "k must be an integer of at least 1, got 0"),
        ({"normalize": "std"}, "normalize must be 'none' or 'rms', got 'std'"),
        ({"weight": -0.1}, "weight must be a number of at least 0, got -0.1"),
        ({"weight": float("nan")}, "weight must be a number of at least 0, got nan"),
        ({"weight": float("inf")}, "weight must be a number of at least 0, got inf"),
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
    with pytest.raises(ValueError, match="belong into the RE3 instance"):
        IntrinsicRewardCallback(reward, k=3)


def test_the_callbacks_own_normalize_reaches_an_instance() -> None:
    env = counting_envs(2)
    reward = make_reward("re3", env.observation_space, env.action_space, n_envs=2, k=2)
    IntrinsicRewardCallback(reward, normalize="rms")
    assert (reward.config.normalize, reward.config.k) == ("rms", 2)
    IntrinsicRewardCallback(reward)
    assert reward.config.normalize == "rms", "what the instance was made with stays"


@pytest.mark.parametrize("name", ["weight", "extrinsic_weight"])
@pytest.mark.parametrize("value", ["0.1", None, True, -1, float("nan"), float("inf")])
def test_weights_are_numbers(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a number of at least 0"):
        IntrinsicRewardCallback("revd", **{name: value})


def test_a_constant_reward_under_vecnormalize_carries_no_signal() -> None:
    """VecNormalize's scale drifts, so that a constant reward looks as if it varied."""
    env = VecNormalize(gym_vector("MountainCar-v0", 2))
    callback = IntrinsicRewardCallback("revd", weight=10.0)
    PPO("MlpPolicy", env, n_steps=16, n_epochs=1, batch_size=16, device="cpu").learn(32 * 22, callback=callback)
    assert callback.latest["bonus_share"] > 0
    assert "std_ratio" not in callback.latest


def gym_vector(task: str, n_envs: int) -> DummyVecEnv:
    return DummyVecEnv([lambda: gym.make(task)] * n_envs)


def test_a_warm_up_is_not_called_negligible() -> None:
    """Nothing is paid until the statistics are there; a warning that says so would be one too many."""
    env = counting_envs(1)
    callback = IntrinsicRewardCallback("re3", normalize_observations=True, warmup=10_000, k=2)
    A2C("MlpPolicy", env, n_steps=4, device="cpu").learn(4 * 30, callback=callback)
    assert callback.latest["bonus_mean"] == 0


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
    with pytest.raises(ValueError, match="next_observations hold a NaN or infinite value at step 3 of environment 1"):
        trained(callback, env=env, n_steps=4)
    assert (callback.rollouts, callback.steps, int(callback.reward.calls)) == (0, 0, 0)
