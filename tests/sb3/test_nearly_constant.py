"""What an automatic weight makes of a bonus that hardly varies, on a task where a fixed weight pays for survival."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
import torch
from stable_baselines3.common.vec_env import DummyVecEnv

from revd.sb3 import IntrinsicRewardCallback
from tests.support.sb3 import ScriptedReward, flat_parameters, make_model

N_STEPS, N_ENVS, ROLLOUTS = 32, 2, 4


class NearlyConstant(ScriptedReward):
    """Pays a constant and, times `size`, something that varies."""

    constant, size, kind = 1.0, 1.0, "noise"

    def bonus(self, rollout: Any) -> torch.Tensor:
        noise = super().bonus(rollout)
        lean = 10 * rollout.observations[..., 2].abs()
        return self.constant + self.size * (noise if self.kind == "noise" else lean)


def learnt(algo: str, **values: Any) -> tuple[torch.Tensor, dict[str, float]]:
    """How far the policy's parameters came, and the numbers of the last rollout; without a bonus if there are none."""
    env = DummyVecEnv([lambda: gym.make("CartPole-v1")] * N_ENVS)
    model = make_model(algo, env, n_steps=N_STEPS)
    start = flat_parameters(model)
    callback = None
    if values:
        reward = NearlyConstant(model.observation_space, model.action_space, N_ENVS)
        vars(reward).update(values)
        callback = IntrinsicRewardCallback(reward)
    model.learn(ROLLOUTS * N_STEPS * N_ENVS, callback=callback)
    return flat_parameters(model) - start, {} if callback is None else callback.latest


@pytest.mark.parametrize("algo", ["PPO", "A2C", "FastPPO"])
@pytest.mark.parametrize("kind", ["noise", "lean"])
def test_a_bonus_that_varies_by_rounding_only_is_constant(algo: str, kind: str) -> None:
    """Less than a millionth of itself: it changes nothing, to the last bit."""
    assert torch.equal(learnt(algo, kind=kind, size=1e-7)[0], learnt(algo)[0])


@pytest.mark.parametrize("algo", ["PPO", "A2C", "FastPPO"])
@pytest.mark.parametrize("kind", ["noise", "lean"])
def test_any_larger_variation_counts_as_if_it_were_all(algo: str, kind: str) -> None:
    """The scale of a bonus and its mean do not matter, so neither does their proportion.

    A bonus that is nearly constant steers the policy at full strength, by the little that varies: by noise that the
    critic cannot predict, or by a number that each state always has.
    """
    without, _ = learnt(algo)
    nearly, numbers = learnt(algo, kind=kind, size=1e-4)
    alone, expected = learnt(algo, kind=kind, constant=0.0)
    assert float((nearly - alone).norm()) < 0.1 * float((alone - without).norm())
    assert numbers["bonus_share"] == pytest.approx(expected["bonus_share"], rel=0.02)
    assert numbers["bonus_share"] > 0.03
