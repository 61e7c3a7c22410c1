from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize

from revd.training.evaluation import EvaluationCallback
from tests.support.environments import CountingEnv, counting_envs

IMAGE = spaces.Box(0, 255, (36, 36, 1), np.uint8)


def evaluations(env, evaluation_env, *, policy="MlpPolicy", every=16, steps=64):
    seen = []
    model = PPO(policy, env, n_steps=8, n_epochs=1, batch_size=8, seed=0, device="cpu")
    callback = EvaluationCallback(evaluation_env, every=every, episodes=2, report=seen.append)
    model.learn(steps, callback=callback)
    return seen, model, callback


def test_the_policy_is_evaluated_between_rollouts(monkeypatch):
    recorded = []
    monkeypatch.setattr(Logger, "record", lambda self, name, value, exclude=None: recorded.append((name, value)))
    seen, _, _ = evaluations(counting_envs(2), VecMonitor(counting_envs(1)))
    assert [evaluation.steps for evaluation in seen] == [16, 32, 48, 64]
    assert {evaluation.episodes for evaluation in seen} == {2}
    means = [evaluation.return_mean for evaluation in seen]
    assert [value for name, value in recorded if name == "eval/return_mean"] == means


def test_a_second_training_keeps_the_rhythm():
    seen, model, callback = evaluations(counting_envs(2), VecMonitor(counting_envs(1)), every=40)
    assert [evaluation.steps for evaluation in seen] == [48]
    model.learn(64, callback=callback, reset_num_timesteps=False)
    assert [evaluation.steps for evaluation in seen] == [48, 80, 128]


def test_statistics_of_the_training_are_used_and_left_alone():
    env, own = VecNormalize(counting_envs(2)), VecNormalize(VecMonitor(counting_envs(1)))
    evaluations(env, own)
    assert not own.training
    assert own.obs_rms.count == pytest.approx(env.obs_rms.count, abs=16.1), "those of the last evaluation"
    assert own.obs_rms.count > 16


def test_images_with_channels_last_and_normalised_rewards():
    env, own = (VecNormalize(VecMonitor(counting_envs(n, observation_space=IMAGE)), norm_obs=False) for n in (2, 1))
    seen, _, _ = evaluations(env, own, policy="CnnPolicy", steps=32)
    assert [evaluation.steps for evaluation in seen] == [16, 32]


def single_env(env):
    return VecMonitor(DummyVecEnv([lambda: env]))


def test_mean_and_spread_are_those_of_the_returns():
    # Episodes of one step pay 1, 3 and 5: the second observation of each.
    env = single_env(CountingEnv(lengths=(1,), reward=float))
    seen = []
    model = PPO("MlpPolicy", counting_envs(2), n_steps=8, n_epochs=1, batch_size=8, seed=0, device="cpu")
    model.learn(16, callback=EvaluationCallback(env, every=16, episodes=3, report=seen.append))
    (evaluation,) = seen
    assert (evaluation.return_mean, evaluation.episodes) == (3.0, 3)
    assert evaluation.return_std == pytest.approx(math.sqrt(8 / 3)), "of the episodes, not of their mean"


class PaysTheAction(CountingEnv):
    """Pays 1 for each step in which the last of the actions is taken, whatever is observed."""

    def step(self, action):
        observation, _, terminated, truncated, info = super().step(action)
        return observation, float(action == self.action_space.n - 1), terminated, truncated, info


def test_the_most_probable_action_is_taken():
    seen = []
    model = PPO("MlpPolicy", counting_envs(2), n_steps=8, learning_rate=0.0, batch_size=8, seed=0, device="cpu")
    # The last of three actions is the most probable one, in every state, with a probability of 0.35.
    with torch.no_grad():
        model.policy.action_net.weight.zero_()
        model.policy.action_net.bias[:] = torch.tensor([0.0, 0.0, 0.1])
    env = single_env(PaysTheAction(lengths=(20,)))
    model.learn(16, callback=EvaluationCallback(env, every=16, episodes=2, report=seen.append))
    assert [(evaluation.return_mean, evaluation.return_std) for evaluation in seen] == [(20.0, 0.0)]


class OnlyLeft(gymnasium.Wrapper):
    """Masks all actions but the first, and counts the others."""

    forbidden = 0

    def action_masks(self):
        return np.array([True, False, False])

    def step(self, action):
        OnlyLeft.forbidden += int(action != 0)
        return self.env.step(action)


def test_action_masks_hold_in_evaluations():
    def make():
        return DummyVecEnv([lambda: Monitor(OnlyLeft(CountingEnv(lengths=(4,), action_space=spaces.Discrete(3))))])

    seen = []
    model = MaskablePPO("MlpPolicy", make(), n_steps=8, n_epochs=1, batch_size=8, seed=0, device="cpu")
    # A policy that would rather do anything else.
    with torch.no_grad():
        model.policy.action_net.bias[:] = torch.tensor([-50.0, 50.0, 0.0])
    model.learn(16, callback=EvaluationCallback(make(), every=8, episodes=3, report=seen.append))
    assert len(seen) == 2
    assert OnlyLeft.forbidden == 0
