from typing import get_args

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from revd.runs import config
from revd.training.atari_vec_env import AtariVecEnv
from revd.training.checked_vec_env import CheckedVecEnv
from revd.training.snapshot import load_normalization_state, normalization_state
from revd.training.vec_env import NormalizeMode, make_vec_env
from tests.support.bullet import needs_pybullet


class DictEnv(gymnasium.Env):
    """An image, a position and a mode; one step an episode."""

    observation_space = spaces.Dict(
        image=spaces.Box(0, 255, (4, 4, 1), np.uint8),
        position=spaces.Box(-100, 100, (2,)),
        mode=spaces.Discrete(3),
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        return self._observe(), 1.0, True, False, {}

    def _observe(self):
        position = self.np_random.normal(50, 5, 2).astype(np.float32)
        return {"image": np.full((4, 4, 1), 7, np.uint8), "position": position, "mode": 1}


@pytest.fixture
def dict_task():
    gymnasium.register("RevdTestDict-v0", entry_point=DictEnv)
    yield "RevdTestDict-v0"
    del gymnasium.registry["RevdTestDict-v0"]


def play(env, steps):
    """Act by a fixed generator and return all observations, rewards and infos."""
    generator = np.random.default_rng(0)
    seen = [env.reset()]
    rewards, infos = [], []
    for _ in range(steps):
        actions = generator.integers(env.action_space.n, size=env.num_envs)
        observation, reward, _, info = env.step(actions)
        seen.append(observation)
        rewards.append(reward)
        infos += info
    return seen, np.array(rewards), infos


def test_equal_seeds_give_equal_environments_and_others_do_not():
    first, _, _ = play(make_vec_env("CartPole-v1", n_envs=2, seed=5), 50)
    again, _, _ = play(make_vec_env("CartPole-v1", n_envs=2, seed=5), 50)
    other, _, _ = play(make_vec_env("CartPole-v1", n_envs=2, seed=6), 50)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[0][0], first[0][1]), "environments of one vector differ from each other"


def test_without_normalisation_there_is_only_the_check():
    env = make_vec_env("CartPole-v1", n_envs=3)
    assert isinstance(env, CheckedVecEnv)
    assert isinstance(env.venv, DummyVecEnv)
    assert env.num_envs == 3
    assert normalization_state(env) == {}
    load_normalization_state(env, {})


@pytest.mark.parametrize(
    ("normalize", "observations", "rewards"),
    [("observations", True, False), ("rewards", False, True), ("both", True, True)],
)
def test_normalize_chooses_what_is_normalised(normalize, observations, rewards):
    env = make_vec_env("CartPole-v1", normalize=normalize, gamma=0.5)
    assert isinstance(env, VecNormalize)
    assert (env.norm_obs, env.norm_reward, env.gamma) == (observations, rewards, 0.5)


def test_monitors_report_the_tasks_own_return():
    env = make_vec_env("CartPole-v1", n_envs=2, normalize="both")
    _, rewards, infos = play(env, 200)
    episodes = [info["episode"] for info in infos if "episode" in info]
    assert not np.allclose(rewards, 1.0), "the policy sees normalised rewards"
    assert episodes
    assert all(episode["r"] == episode["l"] for episode in episodes)


def test_only_real_numbers_of_a_dict_are_normalised(dict_task):
    env = make_vec_env(dict_task, normalize="observations")
    seen, _, _ = play(env, 200)
    assert env.norm_obs_keys == ["position"]
    assert seen[-1]["image"].dtype == np.uint8
    assert np.abs([entry["position"] for entry in seen[20:]]).mean() < 2, "50 on average before"


@pytest.mark.parametrize(("task", "normalize"), [("CartPole-v1", "both"), ("RevdTestDict-v0", "observations")])
def test_statistics_are_restored(task, normalize, dict_task):
    old = make_vec_env(task, n_envs=2, seed=1, normalize=normalize)
    play(old, 30)
    new = make_vec_env(task, n_envs=2, seed=1, normalize=normalize)
    state = normalization_state(old)
    of_observations = "observations" if task == "CartPole-v1" else "observations.position"
    numbers = {f"{name}.{number}" for name in ("rewards", of_observations) for number in ("mean", "var", "count")}
    assert state.keys() == {"returns", *numbers}
    assert state[f"{of_observations}.count"] == pytest.approx(2 * 31, abs=0.1), "every observation, the first ones too"
    load_normalization_state(new, state)
    assert normalization_state(new).keys() == state.keys()
    for key, value in normalization_state(new).items():
        torch.testing.assert_close(value, state[key], rtol=0, atol=0)
    for env in (old, new):
        env.seed(9)
    first, first_rewards, _ = play(old, 10)
    again, again_rewards, _ = play(new, 10)
    np.testing.assert_array_equal(first_rewards, again_rewards)
    if task == "CartPole-v1":
        np.testing.assert_array_equal(first, again)


def test_the_state_is_a_copy():
    env = make_vec_env("CartPole-v1", normalize="both")
    before = normalization_state(env)
    play(env, 20)
    assert float(before["observations.count"]) < float(normalization_state(env)["observations.count"])
    assert float(before["returns"].abs().sum()) == 0


def test_statistics_of_another_environment_are_refused():
    state = normalization_state(make_vec_env("CartPole-v1", normalize="both"))
    for env in (make_vec_env("Acrobot-v1", normalize="both"), make_vec_env("CartPole-v1")):
        with pytest.raises(ValueError, match="do not fit this environment"):
            load_normalization_state(env, state)


@pytest.mark.parametrize("task", ["CartPol-v1", "CartPole-v9"])
def test_unknown_tasks_name_the_nearest(task):
    sentences = r"unknown task '.*'(; did you mean .*\?|\.) A task .* with the package's name, as in ale_py:"
    with pytest.raises(ValueError, match=sentences):
        make_vec_env(task)


def test_nearest_task_is_suggested():
    with pytest.raises(ValueError, match="did you mean 'CartPole-v1'"):
        make_vec_env("CartPol-v1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"normalize": "boht"}, "unknown value of normalize 'boht'; did you mean 'both'"),
        ({"n_envs": 0}, "n_envs must be at least 1, got 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_vec_env("CartPole-v1", **arguments)


def test_normalising_what_is_no_real_number_is_refused(monkeypatch, dict_task):
    with pytest.raises(ValueError, match=r"normalize='both' needs observations of real numbers.*Discrete"):
        make_vec_env("FrozenLake-v1", normalize="both")
    monkeypatch.setattr(DictEnv, "observation_space", spaces.Dict(mode=spaces.Discrete(3)))
    with pytest.raises(ValueError, match="needs observations of real numbers"):
        make_vec_env(dict_task, normalize="observations")


def test_the_config_knows_the_same_choices():
    assert get_args(config.NormalizeTask) == get_args(NormalizeMode)


@pytest.mark.parametrize("task", ["atari/space-invaders", pytest.param("bullet/hopper", marks=needs_pybullet)])
def test_tasks_go_by_name(task):
    env = make_vec_env(task, n_envs=2, seed=3)
    assert isinstance(env.venv, AtariVecEnv if task.startswith("atari") else DummyVecEnv)
    assert env.num_envs == 2
    first, again = env.reset(), make_vec_env(task, n_envs=2, seed=3).reset()
    np.testing.assert_array_equal(first, again)
    assert env.observation_space.contains(first[0])
    assert env.env_is_wrapped(Monitor) == [True, True]
    env.close()


def test_a_misspelt_task_of_ours_gets_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'bullet/hopper'"):
        make_vec_env("bullet/hoper")


def test_sparse_rewards_sit_above_the_monitor():
    env = make_vec_env("CartPole-v1", n_envs=2, sparse=1.0)
    _, rewards, infos = play(env, 100)
    episodes = [info["episode"] for info in infos if "episode" in info]
    assert not rewards.any()
    assert episodes
    assert all(episode["r"] == episode["l"] for episode in episodes)
    assert all(info["task_reward"] == 1 for info in infos)


def test_sparse_rewards_are_seeded_and_differ_between_environments():
    first, again, other = (
        play(make_vec_env("CartPole-v1", n_envs=2, seed=seed, sparse=0.5), 100)[1] for seed in (1, 1, 5)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[:, 0], first[:, 1])
    assert 0.3 < first.mean() < 0.7


def test_sparse_must_be_a_probability():
    with pytest.raises(ValueError, match=r"sparse .* must lie in \[0, 1\], got 1.5"):
        make_vec_env("CartPole-v1", sparse=1.5)


@pytest.mark.parametrize("task", ["atari/space-invaders", pytest.param("bullet/cart-pole", marks=needs_pybullet)])
def test_frames_need_a_render_mode(task):
    env = make_vec_env(task, render_mode="rgb_array")
    env.reset()
    picture = env.render()
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert picture.std() > 10
    env.close()


def test_where_only_rewards_are_normalised_only_they_have_statistics():
    state = normalization_state(make_vec_env("CartPole-v1", normalize="rewards"))
    assert set(state) == {"returns", "rewards.mean", "rewards.var", "rewards.count"}
