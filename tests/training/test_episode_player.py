import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from revd.training.episode_player import play_episode
from revd.training.vec_env import make_vec_env
from tests.support.environments import TICK, CountingEnv, counting_envs
from tests.support.sb3 import make_model


class Drawn(CountingEnv):
    """Draws its number into the same memory over and over."""

    def __init__(self, *arguments, picture=(4, 5, 4), **options):
        super().__init__(*arguments, **options)
        self.render_mode = "rgb_array"
        self._canvas = np.zeros(picture, dtype=np.uint8)

    def render(self):
        self._canvas[:] = self.number
        return self._canvas


def drawn(**options):
    return DummyVecEnv([lambda: Monitor(Drawn(**options))])


@pytest.fixture(scope="module")
def model():
    return make_model("PPO", counting_envs())


def test_every_step_with_its_picture_reward_and_true_successor(model):
    played = play_episode(model, drawn(lengths=(4, 9), reward=lambda number: float(number % 3)))
    assert [int(frame.max()) for frame in played.frames] == [0, 1, 2, 3], "the state before each action"
    assert {frame.shape for frame in played.frames} == {(4, 5, 3)}, "without transparency"
    assert played.rewards.tolist() == [1.0, 2.0, 0.0, 1.0]
    rollout = played.rollout
    assert rollout.observations[:, 0, 0].tolist() == [TICK * number for number in range(4)]
    assert rollout.next_observations[:, 0, 0].tolist() == [TICK * number for number in range(1, 5)]
    assert rollout.dones[:, 0].tolist() == [False, False, False, True]
    assert rollout.actions.shape == (4, 1)


def test_a_long_episode_is_cut(model):
    played = play_episode(model, drawn(lengths=(40,)), max_steps=7)
    assert len(played.frames) == 7
    assert not played.rollout.dones.any()


def test_dict_observations_and_images_with_channels_last():
    parts = {"a": spaces.Box(-np.inf, np.inf, (2,)), "b": spaces.Box(0, 255, (40, 36, 3), np.uint8)}
    space = spaces.Dict(parts)
    model = make_model("PPO", counting_envs(observation_space=space), policy="MultiInputPolicy")
    rollout = play_episode(model, drawn(observation_space=space, lengths=(3,))).rollout
    assert {name: tuple(part.shape) for name, part in rollout.observations.items()} == {
        "a": (3, 1, 2), "b": (3, 1, 3, 40, 36)
    }  # fmt: skip
    rollout.check_against(model.observation_space, model.action_space, 1)


def test_action_masks_are_respected():
    model = make_model("MaskablePPO", counting_envs(action_space=spaces.Discrete(2)))
    played = play_episode(model, drawn(action_space=spaces.Discrete(2), lengths=(30,)), deterministic=False)
    assert not played.rollout.actions.any(), "the last action is never allowed"


def test_a_maskable_policy_without_masks():
    env = make_vec_env("CartPole-v1")
    played = play_episode(
        make_model("MaskablePPO", env), make_vec_env("CartPole-v1", render_mode="rgb_array"), max_steps=3
    )
    assert len(played.frames) == 3


def test_statistics_are_the_models_and_stay_as_they_are():
    settings = {"task": "CartPole-v1", "normalize": "both"}
    model = make_model("PPO", make_vec_env(**settings, n_envs=2))
    model.learn(16)
    mean = model.get_env().obs_rms.mean.copy()
    env = make_vec_env(**settings, render_mode="rgb_array")
    played = play_episode(model, env, seed=3, max_steps=5)
    np.testing.assert_array_equal(env.obs_rms.mean, mean)
    assert played.rewards.tolist() == [1.0] * 5, "not normalised"
    first, _ = gymnasium.make("CartPole-v1").reset(seed=3)
    normalised = (first - mean) / np.sqrt(model.get_env().obs_rms.var + 1e-8)
    np.testing.assert_allclose(played.rollout.observations[0, 0], normalised, rtol=1e-5)


def test_an_atari_game_continues_after_a_lost_life_and_counts_the_real_score():
    env = make_vec_env("atari/assault")
    model = make_model("PPO", env, policy="CnnPolicy")
    played = play_episode(
        model, make_vec_env("atari/assault", render_mode="rgb_array"), seed=1, max_steps=400, deterministic=False
    )
    dones = played.rollout.dones[:, 0].nonzero()[:, 0]
    assert len(dones)
    assert dones[0] < len(played.frames) - 1
    assert played.rewards.max() > 1, "neither clipped"


def test_a_task_without_pictures(model):
    with pytest.raises(ValueError, match=r"cannot be drawn: render\(\) returns ndarray, not a picture"):
        play_episode(model, drawn(picture=(4, 5)))


def test_a_task_whose_drawing_breaks(model, monkeypatch):
    def render(self):
        raise RuntimeError("no display\nand more")

    monkeypatch.setattr(Drawn, "render", render)
    with pytest.raises(ValueError, match=r"^the task cannot be drawn: render\(\) raised RuntimeError: no display$"):
        play_episode(model, drawn())


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("pygame is not installed, run …", r"^the task is drawn with pygame: pip install 'revd\[video\]'$"),
        ("mujoco is not installed", "^the task cannot be drawn: mujoco is not installed$"),
    ],
)
def test_what_draws_is_missing(model, monkeypatch, missing, message):
    def render(self):
        raise gymnasium.error.DependencyNotInstalled(missing)

    monkeypatch.setattr(Drawn, "render", render)
    with pytest.raises(ValueError, match=message):
        play_episode(model, drawn())
