"""Returns and advantages, as the update finds them, against the definition of GAE."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnvWrapper, VecNormalize

from revd.sb3 import IntrinsicRewardCallback
from tests.support.environments import counting_envs
from tests.support.sb3 import ALGORITHMS, Seen, Witness, generalized_advantages, make_model, scripted_reward

N_STEPS, N_ENVS = 8, 2
# Episodes that end inside rollouts and, those of four steps, exactly at their ends.
LENGTHS = ((4,), (3, 6, 2))


def watched_training(model: Any, callback: IntrinsicRewardCallback, rollouts: int = 4, **arguments: Any) -> list[Seen]:
    witness = Witness()
    model.learn(rollouts * model.n_steps * model.n_envs, callback=[witness, callback], **arguments)
    return witness.seen


def frozen_model(algo: str, **arguments: Any) -> Any:
    """A model that does not learn, so that V(s_T) of one rollout is the first value of the next."""
    environment = {"lengths": LENGTHS, "truncate": arguments.pop("truncate", True)}
    environment["reward"] = arguments.pop("reward", lambda number: float(number % 5) - 1.5)
    env = arguments.pop("wrap", lambda env: env)(counting_envs(N_ENVS, **environment))
    return make_model(algo, env, n_steps=N_STEPS, learning_rate=0.0, gamma=0.9, gae_lambda=0.8, **arguments)


def expected_rewards(seen: Seen, bonus: np.ndarray, weight: float, extrinsic_weight: float) -> np.ndarray:
    return extrinsic_weight * np.array(seen.raw) + np.array(seen.bootstrap) + weight * bonus


@pytest.mark.parametrize("extrinsic_weight", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("truncate", [True, False], ids=["truncate", "terminate"])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_advantages_are_gae_of_the_summed_reward(algo: str, truncate: bool, extrinsic_weight: float) -> None:
    model = frozen_model(algo, truncate=truncate)
    reward = scripted_reward(model)
    callback = IntrinsicRewardCallback(reward, weight=0.7, decay=0.1, extrinsic_weight=extrinsic_weight)

    rollouts = watched_training(model, callback, rollouts=5)

    for index, (seen, following) in enumerate(pairwise(rollouts)):
        rewards = expected_rewards(seen, reward.paid[index], 0.7 * 0.9 ** (index + 1), extrinsic_weight)
        np.testing.assert_allclose(seen.rewards, rewards, rtol=1e-5, atol=1e-5)
        advantages = generalized_advantages(rewards, seen.values, following.values[0], np.array(seen.dones), 0.9, 0.8)
        np.testing.assert_allclose(seen.advantages, advantages, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(seen.returns, advantages + seen.values, rtol=1e-4, atol=1e-5)
    ends = np.array([seen.dones for seen in rollouts])
    assert ends[:, :-1].any()
    assert ends[:, -1].any()
    assert not ends[:, -1].all()
    assert (np.array([seen.bootstrap for seen in rollouts]) != 0).any() == truncate


class OwnLoop(PPO):
    """Overwrites `values` after the last step, and keeps V(s_T) for itself, as a loop of one's own may."""

    def collect_rollouts(self, env: Any, callback: Any, rollout_buffer: Any, n_rollout_steps: int) -> bool:
        ended = callback.on_rollout_end
        callback.on_rollout_end = lambda: (callback.update_locals({"values": torch.full((N_ENVS, 1), 99.0)}), ended())
        return super().collect_rollouts(env, callback, rollout_buffer, n_rollout_steps)


def test_the_last_value_of_a_custom_loop_is_predicted_again() -> None:
    model = make_model("PPO", counting_envs(N_ENVS, lengths=LENGTHS), n_steps=N_STEPS)
    model.__class__ = OwnLoop
    model.learn(N_STEPS * N_ENVS, callback=IntrinsicRewardCallback(scripted_reward(model)))
    assert abs(model.rollout_buffer.returns).max() < 50


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_the_update_learns_from_the_bonus(algo: str) -> None:
    """What `train` reads are the advantages of the changed rewards, also when the policy does learn."""
    model = make_model(algo, counting_envs(N_ENVS, lengths=LENGTHS), n_steps=N_STEPS)
    reward = scripted_reward(model)
    rollouts = watched_training(model, IntrinsicRewardCallback(reward, weight=1.0, decay=0.0), rollouts=2)
    for seen, paid in zip(rollouts, reward.paid, strict=True):
        np.testing.assert_allclose(seen.rewards, np.array(seen.raw) + paid, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["revd", "re3", "ride"])
def test_the_methods_enter_the_same_way(method: str) -> None:
    model = frozen_model("PPO")
    callback = IntrinsicRewardCallback(method, weight=0.5, decay=0.0, extrinsic_weight=0.5)
    paid: list[np.ndarray] = []

    class Listener(Witness):
        def _on_training_start(self) -> None:
            compute = callback.reward.compute

            def recorded(rollout: Any) -> Any:
                bonus = compute(rollout)
                paid.append(bonus.double().numpy().copy())
                return bonus

            callback.reward.compute = recorded

    listener = Listener()
    model.learn(4 * N_STEPS * N_ENVS, callback=[listener, callback])

    assert all(np.abs(bonus).sum() > 0 for bonus in paid[1:])
    for seen, following, bonus in zip(listener.seen[:-1], listener.seen[1:], paid[:-1], strict=True):
        rewards = expected_rewards(seen, bonus, 0.5, 0.5)
        advantages = generalized_advantages(rewards, seen.values, following.values[0], np.array(seen.dones), 0.9, 0.8)
        np.testing.assert_allclose(seen.advantages, advantages, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_bonus_is_credited_to_earlier_steps_of_its_episode(algo: str) -> None:
    """One unit at step t: A_t rises by 1, A_{t-1} by gamma lambda, …; nothing crosses an episode's end."""
    step, env = 6, 1
    table = np.zeros((N_STEPS, N_ENVS))
    table[step, env] = 1.0
    with_bonus, without = (
        watched_training(
            (model := frozen_model(algo)),
            IntrinsicRewardCallback(scripted_reward(model, pay), weight=1.0, decay=0.0),
            rollouts=1,
        )[0]
        for pay in (table, 0 * table)
    )

    # Environment 1 ends episodes at steps 2 and 8: steps 3 … 6 lead to the paid one.
    expected = np.zeros((N_STEPS, N_ENVS))
    expected[3:7, env] = [(0.9 * 0.8) ** (step - earlier) for earlier in range(3, 7)]
    assert np.flatnonzero(np.array(with_bonus.dones)[:, env]).tolist() == [2]
    np.testing.assert_allclose(with_bonus.advantages - without.advantages, expected, atol=2e-6)
    np.testing.assert_allclose(with_bonus.returns - without.returns, expected, atol=2e-6)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_normalized_rewards_and_observations(algo: str) -> None:
    """With VecNormalize the extrinsic reward is the normalised one and the bootstrap still whole."""
    model = frozen_model(algo, wrap=VecNormalize)
    reward = scripted_reward(model)
    rollouts = watched_training(model, IntrinsicRewardCallback(reward, weight=0.3, decay=0.0, extrinsic_weight=0.5))
    for index, seen in enumerate(rollouts):
        rewards = expected_rewards(seen, reward.paid[index], 0.3, 0.5)
        np.testing.assert_allclose(seen.rewards, rewards, rtol=1e-5, atol=1e-5)
    assert (np.array([seen.bootstrap for seen in rollouts]) != 0).any()


class Float64Rewards(VecEnvWrapper):
    """Rewards as SubprocVecEnv gives them: float64, with digits that the buffer cannot hold."""

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        observations, rewards, dones, infos = self.venv.step_wait()
        return observations, rewards.astype(np.float64) / 3, dones, infos


def test_the_bootstrap_survives_bit_by_bit() -> None:
    """raw + (buffer - raw) must give the buffer's value again, also where the difference is rounded in float32."""

    def rewards(callback: list[Any]) -> list[np.ndarray]:
        model = frozen_model("PPO", wrap=Float64Rewards, reward=lambda number: 4.5 + 1e-2 * (number % 7))
        model.policy.value_net.weight.data.zero_()
        model.policy.value_net.bias.data.fill_(-1.9)
        witness = Witness()
        model.learn(6 * N_STEPS * N_ENVS, callback=[witness, *callback])
        return [seen.rewards for seen in witness.seen]

    np.testing.assert_array_equal(rewards([IntrinsicRewardCallback("re3", weight=0.0)]), rewards([]))
