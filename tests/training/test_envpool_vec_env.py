"""EnvPool's environments under Stable-Baselines3: episodes that end and start in one step."""

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecFrameStack

pytest.importorskip("envpool", reason="EnvPool is not installed: pip install 'revd[envpool]'")

from sb3_contrib import RecurrentPPO

from revd.envs.envpool import make_pool, one_hot_images
from revd.sb3 import IntrinsicRewardCallback
from revd.training.checked_vec_env import CheckedVecEnv
from revd.training.env_checks import EnvironmentFault
from revd.training.envpool_vec_env import EnvPoolVecEnv


def started(task_id, n_envs=3, *, seed=0, **options):
    env = EnvPoolVecEnv(task_id, n_envs, **options)
    env.seed(seed)
    return env, env.reset()


def steps_of(env, actions):
    return [env.step(row) for row in actions]


def random_actions(env, n_steps, seed=0):
    return np.random.default_rng(seed).integers(env.action_space.n, size=(n_steps, env.num_envs))


def test_ends_and_starts_are_one_step():
    """Against a pool that is never reset in between: its last observations are the terminal ones."""
    env, _ = started("CartPole-v1", 3, seed=5)
    plain = make_pool("CartPole-v1", 3, seed=5)
    plain.reset()
    alive = np.ones(3, bool)
    ended = 0
    for actions in random_actions(env, 60):
        observations, _, dones, infos = env.step(actions)
        received, _, terminated, truncated, _ = plain.step(actions.astype(np.int32))
        for index in np.flatnonzero(alive):
            if dones[index]:
                assert terminated[index]
                assert not truncated[index]
                np.testing.assert_array_equal(infos[index]["terminal_observation"], received[index])
                assert np.abs(observations[index]).max() < 0.05, "the next episode's first observation"
                assert not np.array_equal(observations[index], received[index])
                ended += 1
            else:
                np.testing.assert_array_equal(observations[index], received[index])
                assert "terminal_observation" not in infos[index]
        alive &= ~dones
    assert ended == 3


def test_episodes_are_reported_as_by_a_monitor():
    env, _ = started("CartPole-v1", 4)
    returns, lengths, reports = np.zeros(4), np.zeros(4, int), 0
    for _, rewards, dones, infos in steps_of(env, random_actions(env, 200)):
        returns += rewards
        lengths += 1
        for index in range(4):
            assert ("episode" in infos[index]) == dones[index]
            if dones[index]:
                assert (infos[index]["episode"]["r"], infos[index]["episode"]["l"]) == (returns[index], lengths[index])
                assert infos[index]["episode"]["t"] >= 0
                assert not infos[index]["TimeLimit.truncated"]
                returns[index] = lengths[index] = 0
                reports += 1
    assert reports >= 8


def test_time_outs_are_told_apart_from_ends():
    env, _ = started("MountainCar-v0", 2)
    *before, (_, _, dones, infos) = steps_of(env, np.ones((200, 2), int))
    assert not any(step[2].any() for step in before)
    assert dones.all()
    assert [info["TimeLimit.truncated"] for info in infos] == [True, True]
    assert [info["episode"]["l"] for info in infos] == [200, 200]


def test_equal_seeds_give_equal_episodes_and_a_reset_without_one_goes_on():
    (one, first), (two, second) = started("MiniGrid-DoorKey-8x8-v0", seed=7), started("MiniGrid-DoorKey-8x8-v0", seed=7)
    np.testing.assert_array_equal(first, second)
    actions = random_actions(one, 700)
    for ours, theirs in zip(steps_of(one, actions), steps_of(two, actions), strict=True):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[2], theirs[2])
    assert not np.array_equal(one.reset(), first)
    one.seed(7)
    np.testing.assert_array_equal(one.reset(), first)
    one.seed(8)
    assert not np.array_equal(one.reset(), first)


def test_grid_worlds_show_one_hot_codes_and_tell_where_the_agent_is():
    env, observations = started("MiniGrid-DoorKey-8x8-v0", 5)
    assert (env.observation_space.shape, observations.dtype) == ((7, 7, 21), np.float32)
    np.testing.assert_array_equal(observations.sum(axis=-1), 3)
    _, _, _, infos = env.step(np.full(5, 6))
    assert all(1 <= coordinate <= 6 for info in infos for coordinate in info["agent_pos"])


def test_one_hot_codes_by_a_loop():
    codes = np.random.default_rng(0).integers((11, 6, 4), size=(4, 7, 7, 3)).astype(np.uint8)
    found = one_hot_images({"image": codes})
    for place in np.ndindex(4, 7, 7):
        what, colour, state = codes[place]
        assert np.flatnonzero(found[place]).tolist() == [what, 11 + colour, 17 + state]


def test_hidden_rewards_are_kept_in_the_infos():
    env, _ = started("CartPole-v1", 4, sparse=0.9)
    rewards, kept = [], []
    for _, shown, dones, infos in steps_of(env, random_actions(env, 500)):
        rewards.append(shown)
        kept.append([info["task_reward"] for info in infos])
        for index in np.flatnonzero(dones):
            assert infos[index]["episode"]["r"] == infos[index]["episode"]["l"], "reports are the task's own"
    assert (np.array(kept) == 1).all()
    assert np.mean(rewards) == pytest.approx(0.1, abs=0.03)
    again, _ = started("CartPole-v1", 4, sparse=0.9)
    np.testing.assert_array_equal([step[1] for step in steps_of(again, random_actions(env, 500))], rewards)


@pytest.mark.parametrize("actions", [[0, 1, 2], [0, -1, 1], [0, 1], [[0], [1], [0]]])
def test_actions_that_are_none_are_refused(actions):
    env, _ = started("CartPole-v1", 3)
    with pytest.raises(ValueError, match=r"actions must be 3 elements of Discrete\(2\)"):
        env.step(np.array(actions))


def test_faults_name_environment_and_seed(monkeypatch):
    env = CheckedVecEnv(EnvPoolVecEnv("CartPole-v1", 3), "classic/cart-pole")
    env.seed(40)
    env.reset()
    pool = env.venv._pool

    class Broken:
        def step(self, actions):
            observations, *rest = pool.step(actions)
            observations = observations.copy()
            observations[1] = np.nan
            return observations, *rest

    monkeypatch.setattr(env.venv, "_pool", Broken())
    with pytest.raises(EnvironmentFault, match=r"environment 1 of task 'classic/cart-pole' \(seed 41\)"):
        env.step(np.zeros(3, int))


def test_continuous_actions_go_through():
    env, _ = started("MountainCarContinuous-v0", 2)
    (slow, *_), _ = env.step(np.zeros((2, 1), np.float32)), None
    again, _ = started("MountainCarContinuous-v0", 2)
    (fast, *_), _ = again.step(np.ones((2, 1), np.float32)), None
    assert (fast[:, 1] > slow[:, 1]).all()


@pytest.mark.parametrize("stacked", [False, True], ids=["plain", "four frames"])
def test_ppo_learns_with_a_bonus(stacked):
    env = EnvPoolVecEnv("MiniGrid-Empty-5x5-v0", 8)
    env = VecFrameStack(env, 4) if stacked else env
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=128, seed=0)
    callback = IntrinsicRewardCallback("revd", weight=0.01)
    before = model.policy.state_dict()["action_net.weight"].clone()
    model.learn(2 * 8 * 64, callback=callback)
    assert callback.rollouts == 2
    assert not before.equal(model.policy.state_dict()["action_net.weight"])
    assert model.rollout_buffer.observations.shape[-1] == (84 if stacked else 21)


def test_recurrent_policies_learn_on_it():
    model = RecurrentPPO("MlpLstmPolicy", EnvPoolVecEnv("MiniGrid-MultiRoom-N2-S4-v0", 2), n_steps=32, seed=0)
    model.learn(128, callback=IntrinsicRewardCallback("re3"))
    assert model.num_timesteps == 128
