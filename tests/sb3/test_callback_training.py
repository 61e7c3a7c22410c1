"""Whole trainings with the bonus: every kind of space, seeds, company."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
)
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

from revd.sb3 import IntrinsicRewardCallback
from tests.support.environments import CountingEnv, counting_envs
from tests.support.sb3 import ALGORITHMS, flat_parameters, trained

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
    # Of 4 rollouts of 6 steps, every fifth.
    saved = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert saved == {f"rl_model_{steps}_steps.zip" for steps in (10, 20, 30, 40)}


COMPANIONS: dict[str, Any] = {
    "list": lambda first, second: [first, second],
    "CallbackList": lambda first, second: CallbackList([first, second]),
    "nested": lambda first, second: [CallbackList([first]), CallbackList([CallbackList([second])])],
    "event": lambda first, second: [first, EveryNTimesteps(2, CallbackList([second]))],
    "twice the same": lambda first, second: [first, first],
}


@pytest.mark.parametrize("companions", COMPANIONS.values(), ids=COMPANIONS)
@pytest.mark.parametrize("extrinsic_weight", [0.0, 1.0])
def test_a_second_one_is_refused_before_training_starts(companions: Any, extrinsic_weight: float) -> None:
    """It would take the first one's bonus for SB3's bootstrap, and with extrinsic_weight=0 train on minus the task."""
    env = counting_envs(2)
    pair = [IntrinsicRewardCallback("re3", k=2, extrinsic_weight=extrinsic_weight) for _ in range(2)]
    with pytest.raises(
        RuntimeError, match=r"a second IntrinsicRewardCallback.* mix rewards in it: reward=\['revd', 're3'\]"
    ):
        trained(companions(*pair), env=env)
    assert env.get_attr("steps_taken") == [0, 0]
    for callback in pair:
        trained(callback, env=env, rollouts=1)
        assert callback.rollouts == 1, "each works alone afterwards"


def test_one_may_follow_another_and_train_several_models() -> None:
    first, second = (IntrinsicRewardCallback("re3", k=2) for _ in range(2))
    model = trained(first, rollouts=1)
    model.learn(12, callback=[second])
    model.learn(12, callback=[first], reset_num_timesteps=False)
    trained(first, rollouts=1)
    assert (first.rollouts, second.rollouts) == (3, 1)


class FailsAtStep(BaseCallback):
    def _on_step(self) -> bool:
        if self.n_calls == 4:
            raise KeyError("of the user's own")
        return True


def test_after_an_exception_the_model_takes_another(tmp_path: Path) -> None:
    env = counting_envs(2)
    first, second = (IntrinsicRewardCallback("re3", k=2) for _ in range(2))
    model = trained(None, env=env, rollouts=1)
    saved = set(vars(model))
    with pytest.raises(KeyError, match="of the user's own"):
        model.learn(12, callback=[first, FailsAtStep()])
    assert set(vars(model)) == saved, "nothing is left on the model, nor goes into its file"
    model.learn(12, callback=second)
    model.learn(12, callback=first)
    assert (first.rollouts, second.rollouts) == (1, 1)


def test_what_was_the_child_of_an_event_may_be_passed_itself() -> None:
    child = IntrinsicRewardCallback("re3", k=2)
    model = trained(None, rollouts=1)
    with pytest.raises(RuntimeError, match="EveryNTimesteps would never pay the bonus"):
        model.learn(12, callback=EveryNTimesteps(2, child))
    model.learn(12, callback=child)
    assert child.rollouts == 1


def test_as_the_callback_of_new_best_policies_it_refuses() -> None:
    evaluation = EvalCallback(
        DummyVecEnv([lambda: Monitor(CountingEnv())]),
        callback_on_new_best=IntrinsicRewardCallback("re3", k=2),
        n_eval_episodes=1,
        eval_freq=2,
        verbose=0,
    )
    with pytest.raises(RuntimeError, match=r"not shown the rewards: pass IntrinsicRewardCallback to learn\(\) itself"):
        trained(evaluation)


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
