"""Extreme values: the rollout buffer holds finite rewards and advantages, or there is a clear error."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from revd.sb3 import IntrinsicRewardCallback
from revd.weighting.balance import Balance
from tests.support.environments import counting_envs
from tests.support.sb3 import LatestOfEachRollout, scripted_callback, trained


def train(callback: Any, env: Any = None, **arguments: Any) -> Any:
    """A model whose buffer was finite after each of its rollouts."""
    witness = LatestOfEachRollout(callback)
    model = trained([callback, witness], env=env, **arguments)
    assert all(np.isfinite(rewards).all() for rewards in witness.rewards)
    for latest in witness.latest:
        assert all(map(np.isfinite, latest.values())), latest
    buffer = model.rollout_buffer
    assert np.isfinite(buffer.advantages).all()
    assert np.isfinite(buffer.returns).all()
    return model


@pytest.mark.parametrize("algo", ["PPO", "A2C"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"decay": 1.0},
        {"decay": 1.0, "decay_per": "step"},
        {"decay": 1 - 1e-16, "decay_per": "step"},
        {"weight": 0.0},
        {"weight": 5e-324},
        {"weight": 1e-300, "decay": 0.5, "decay_per": "step"},
    ],
    ids=str,
)
def test_weights_that_reach_zero(algo: str, arguments: dict[str, Any]) -> None:
    callback = IntrinsicRewardCallback("revd", **arguments)
    model = train(callback, algo=algo)
    assert callback.latest["weight"] < 1e-299
    assert callback.latest["bonus_mean"] > 0
    assert callback.latest["bonus_share"] < 1e-290
    alone = trained(None, algo=algo)
    np.testing.assert_array_equal(model.rollout_buffer.rewards, alone.rollout_buffer.rewards)


@pytest.mark.parametrize("reward", ["revd", "re3", "ride"])
@pytest.mark.parametrize("normalize", ["none", "rms"])
def test_observations_that_never_vary(reward: str, normalize: Any) -> None:
    env = counting_envs(2, observation_space=spaces.Discrete(1))
    callback = IntrinsicRewardCallback(reward, normalize=normalize)
    train(callback, env)
    assert callback.latest["bonus_mean"] == 0


@pytest.mark.parametrize("reward", ["revd", "re3", "ride"])
@pytest.mark.parametrize("n_envs", [1, 4_096])
def test_one_environment_and_thousands(reward: str, n_envs: int) -> None:
    callback = IntrinsicRewardCallback(reward, embedding_size=4)
    train(callback, counting_envs(n_envs, lengths=[(40,)]), rollouts=2, n_steps=5, n_epochs=1)
    assert callback.latest["bonus_mean"] > 0


@pytest.mark.parametrize("reward", ["revd", "re3"])
def test_rollouts_shorter_than_k_are_an_error_before_training(reward: str) -> None:
    env = counting_envs(2)
    with pytest.raises(ValueError, match="k = 6 neighbours cannot be found in rollouts of n_steps = 6"):
        trained(IntrinsicRewardCallback(reward, k=6), env=env)
    assert env.get_attr("steps_taken") == [0, 0]


@pytest.mark.parametrize("reward", ["revd", "re3", "ride"])
def test_episodes_of_one_step(reward: str) -> None:
    params = {} if reward == "ride" else {"boundary": "episode"}
    train(IntrinsicRewardCallback(reward, **params), counting_envs(2, lengths=[(1,)]))


@pytest.mark.parametrize("name", ["weight", "extrinsic_weight"])
def test_a_weight_too_large_for_float32_is_an_error(name: str) -> None:
    env = counting_envs(2)
    callback = scripted_callback(env, np.ones((6, 2)), **{"weight": 0.1, name: 1e308})
    with pytest.raises(
        ValueError, match=rf"reward at step \d of environment \d is inf .*{name} = 1e\+308 .* too large"
    ):
        trained(callback, env=env)


@pytest.mark.parametrize("name", ["strength", "extrinsic_weight"])
def test_advantages_too_large_for_float32_are_an_error(name: str) -> None:
    env = counting_envs(2)
    callback = scripted_callback(env, **{name: 1e308})
    with pytest.raises(ValueError, match=rf"and its advantage (-?inf|nan): .*{name} = 1e\+308 .*is too large"):
        trained(callback, env=env)


def test_returns_too_large_for_float32_are_an_error() -> None:
    env = counting_envs(2, lengths=[(40,)])
    callback = scripted_callback(env, np.full((6, 2), 3e38), weight=1.0, decay=0.0)
    with pytest.raises(ValueError, match=r"and its return inf: weight = 1 or extrinsic_weight = 1 is too large"):
        trained(callback, env=env)


@pytest.mark.parametrize("weight", [0.1, "auto"])
def test_a_reward_of_the_task_that_is_nan_is_named(weight: Any) -> None:
    env = counting_envs(2, reward=lambda number: float("nan") if number == 103 else 0.0)
    with pytest.raises(ValueError, match=r"reward at step 2 of environment 1 is nan .* the task's own reward is nan"):
        trained(IntrinsicRewardCallback("revd", weight=weight), env=env)


@pytest.mark.parametrize("bonus", [np.nan, np.inf])
def test_a_bonus_that_is_not_finite_never_reaches_the_buffer(bonus: float) -> None:
    env = counting_envs(2)
    callback = scripted_callback(env, np.full((6, 2), bonus))
    with pytest.raises(
        ValueError, match="the bonus of ScriptedReward is not a finite number at step 0 of environment 0"
    ):
        trained(callback, env=env)


def test_the_balance_of_the_largest_rewards_is_finite() -> None:
    """Their sum and their squares leave float32."""
    extrinsic = np.tile(np.array([[0.0, 3e38]], np.float32), (6, 1))
    balance = Balance.compare(extrinsic / 2, extrinsic, task=extrinsic)
    assert balance.share == pytest.approx(1 / 3)
    assert balance.std_ratio == pytest.approx(1 / 2)


@pytest.mark.parametrize("value", [None, "0.1", True, np.nan, -0.1, 1.1, 10**400, 1j, [0.5]])
def test_a_decay_that_is_no_fraction_is_an_error(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^decay must be inside \[0, 1\], got "):
        IntrinsicRewardCallback("revd", decay=value)


@pytest.mark.parametrize("name", ["weight", "extrinsic_weight"])
@pytest.mark.parametrize("value", [None, "1", True, np.nan, np.inf, -1, 10**400, 1j, np.complex64(1)])
def test_a_weight_that_is_no_number_is_an_error(name: str, value: Any) -> None:
    valid = "'auto' or a number of at least 0" if name == "weight" else "a number of at least 0"
    with pytest.raises(ValueError, match=rf"^{name} must be {valid}, got "):
        IntrinsicRewardCallback("revd", **{name: value})
