"""The weight's schedule, what is logged about the bonus, and when it is warned about."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from revd import MixedReward
from revd.sb3 import IntrinsicRewardCallback
from tests.support.environments import counting_envs
from tests.support.sb3 import LatestOfEachRollout, make_model, scripted_callback, scripted_reward, trained

#: What only an automatic weight logs.
AUTOMATIC = {"strength", "task_deviation", "bonus_deviation", "critic_explained_variance", "task_speaks"}


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


def test_the_schedule_may_be_changed_between_rollouts() -> None:
    env = counting_envs(2, reward=lambda number: 1.0)
    callback = scripted_callback(env, np.ones((6, 2)), weight=0.3, decay=0.0)
    watch = LatestOfEachRollout(callback)
    model = trained([callback, watch], env=env, rollouts=1)
    callback.weight, callback.decay, callback.extrinsic_weight = 0.8, 0.5, 2.0
    model.learn(6 * 2, callback=[callback, watch], reset_num_timesteps=False)
    assert [latest["weight"] for latest in watch.latest] == pytest.approx([0.3, 0.8 * 0.25])
    np.testing.assert_allclose(watch.rewards[-1], 2.2, rtol=1e-6)
    callback.decay_per = "step"
    assert callback.weighting.schedule.decay_per == "step"


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
@pytest.mark.parametrize("weight", [0.1, "auto"])
def test_the_log_file_has_it_all(method: str, metrics: set[str], varies: bool, weight: Any, tmp_path: Path) -> None:
    env = counting_envs(2, reward=(lambda number: float(number % 2)) if varies else (lambda number: -1.0))
    model = make_model("PPO", env, n_steps=6)
    model.set_logger(configure(str(tmp_path), ["csv"]))
    callback = IntrinsicRewardCallback(method, weight=weight)
    model.learn(36, callback=callback)
    model.logger.close()
    with open(tmp_path / "progress.csv") as file:
        rows = list(csv.DictReader(file))
    of_the_weight = AUTOMATIC if weight == "auto" else {"std_ratio"} if varies else set()
    names = {"bonus_mean", "weight", "bonus_share", "time_fraction", *metrics, *of_the_weight}
    logged = {name.removeprefix("exploration/") for name in rows[-1] if name.startswith("exploration/")}
    assert names <= logged
    assert ("std_ratio" in logged) == ("std_ratio" in of_the_weight)
    assert (AUTOMATIC & logged != set()) == (weight == "auto")
    of_the_reward = names - {"time_fraction", "forward_loss", "inverse_loss"}
    assert {name: float(rows[-1][f"exploration/{name}"]) for name in of_the_reward} == pytest.approx(
        {name: callback.latest[name] for name in of_the_reward}
    )
    for row in rows:
        assert 0 < float(row["exploration/time_fraction"]) <= 1
        assert 0 <= float(row["exploration/bonus_share"]) <= 1
    assert all(np.isfinite(float(rows[-1][f"exploration/{name}"])) for name in names)


def warnings_of(table: np.ndarray, reward: Any, rollouts: int, **arguments: Any) -> list[str]:
    env = counting_envs(2, reward=reward)
    callback = scripted_callback(env, table, **{"weight": 0.1, **arguments})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(callback, algo="A2C", env=env, rollouts=rollouts, n_steps=4)
    return [str(entry.message) for entry in caught]


WAVE = np.array([[1.0, -1.0]] * 4)


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1e6])
def test_an_automatic_weight_needs_no_warning(scale: float) -> None:
    """Whatever the size of the bonus: it follows from the data what becomes of it."""
    assert warnings_of(scale * WAVE, lambda number: number % 4 == 0, 45, weight="auto") == []


def test_a_bonus_that_yields_to_a_dense_reward_is_warned_about_once() -> None:
    (message,) = warnings_of(WAVE, lambda number: number % 2, 45, weight="auto")
    assert "the bonus has no effect. To let it act, set yield_to_task=False." in message
    assert warnings_of(WAVE, lambda number: number % 2, 45, weight="auto", yield_to_task=False) == []


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


def learnt_for_20k_steps(callback: Any, env: Any) -> list[str]:
    """The warnings of ten rollouts of 2,048 steps."""
    model = make_model("A2C", env, n_steps=1024)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.learn(20_000, callback=callback)
    assert callback.rollouts == 10
    return [str(entry.message) for entry in caught]


def test_a_share_of_nearly_nothing_is_warned_about_in_20k_steps() -> None:
    env = counting_envs(2, reward=lambda number: 1.0)
    callback = scripted_callback(env, np.full((1024, 2), 0.002), weight=0.1)
    (message,) = learnt_for_20k_steps(callback, env)
    assert callback.latest["bonus_share"] == pytest.approx(0.0002, rel=1e-2)
    assert "under 1% of the reward for 10,240 steps (5 rollouts)" in message


@pytest.mark.parametrize("reward", [0.0, -1.0])
def test_a_task_that_has_not_paid_yet_is_not_called_drowned(reward: float) -> None:
    assert warnings_of(1e5 * WAVE, lambda number: reward, 25) == [], "a few steps without reward are no reason to warn"
    env = counting_envs(2, reward=lambda number: reward)
    (message,) = learnt_for_20k_steps(scripted_callback(env, np.full((1024, 2), 1e3), weight=0.1), env)
    assert "the task has not paid yet: no reward was above 0 in 10,240 steps" in message
    assert "drown" not in message


COPIES: dict[str, Any] = {"merge_duplicates": False}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, 0), (COPIES, 1), (COPIES | {"weight": 0.1}, 1), (COPIES | {"eps": 0.1}, 0), (COPIES | {"weight": 0.0}, 0)],
)
def test_many_duplicates_are_warned_about(settings: dict[str, Any], expected: int) -> None:
    """Of an observation that has two values."""
    env = counting_envs(2, observation_space=spaces.Discrete(2), reward=lambda number: number % 2)
    callback = IntrinsicRewardCallback("revd", extrinsic_weight=0.0, **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(callback, env=env, rollouts=25, n_steps=16, n_epochs=1)
    assert callback.latest["duplicates"] > 0.9
    assert len(caught) == expected
    assert all("exact copy in their segment" in str(entry.message) for entry in caught)


def test_no_warning_when_the_task_is_left_out_on_purpose() -> None:
    assert warnings_of(1e3 * WAVE, lambda number: number % 2, 25, extrinsic_weight=0.0) == []
    assert warnings_of(0 * WAVE, lambda number: number % 2, 25, extrinsic_weight=0.0) == []


def test_no_warning_when_there_is_no_bonus_on_purpose() -> None:
    assert warnings_of(WAVE, lambda number: number % 2, 25, weight=0.0) == []


def test_no_warning_for_what_decay_does() -> None:
    assert warnings_of(3 * WAVE, lambda number: number % 2, 45, decay=0.5) == []
    # Drowning for the first rollouts only.
    assert warnings_of(1e3 * WAVE, lambda number: number % 2, 45, decay=0.7) == []


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


def test_names_too_long_for_sb3s_table_do_not_end_the_training(tmp_path: Path) -> None:
    model = make_model("PPO", counting_envs(2), n_steps=6)
    long_name = "a_reward_whose_name_is_longer_than_the_table"
    mixture = MixedReward({long_name: scripted_reward(model), "other": scripted_reward(model)})
    model.set_logger(configure(str(tmp_path), ["stdout", "csv"]))
    callback = IntrinsicRewardCallback(mixture)
    model.learn(24, callback=callback)
    model.logger.close()
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert f"exploration/{long_name}/bonus_mean" in header
    assert f"exploration/{long_name}/loss" in header


def test_the_strength_is_not_logged_where_it_has_no_effect() -> None:
    alone, both = (IntrinsicRewardCallback("re3", k=2, extrinsic_weight=factor) for factor in (0.0, 1.0))
    for callback in (alone, both):
        trained(callback)
    assert "strength" not in alone.latest
    assert both.latest["strength"] == pytest.approx(0.1, rel=1e-3)
