import gymnasium
import minigrid  # noqa: F401  registers the level that is made by id here
import numpy as np
import pytest
from gymnasium import spaces

from revd.envs.drop_text import DropText, has_text
from revd.envs.make import make_env


class Talking(gymnasium.Env):
    """A number and two texts."""

    observation_space = spaces.Dict(
        note=spaces.Text(20), number=spaces.Box(0, 1, (1,)), command=spaces.Text(20), mode=spaces.Discrete(2)
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self._observe(), {}

    def step(self, action):
        return self._observe(), 0.0, False, False, {}

    def _observe(self):
        return {"note": "hello", "number": np.zeros(1, np.float32), "command": "go", "mode": 1}


def test_text_is_dropped_with_a_warning_that_names_it():
    with pytest.warns(UserWarning, match="the text command, note is dropped"):
        env = DropText(Talking())
    assert list(env.observation_space.spaces) == ["mode", "number"]
    for observation in (env.reset()[0], env.step(0)[0]):
        assert env.observation_space.contains(observation)


def test_the_missions_of_minigrid_by_id_are_text():
    with pytest.warns(UserWarning, match="the text mission is dropped"):
        env = make_env("MiniGrid-Empty-5x5-v0")
    assert set(env.observation_space.spaces) == {"direction", "image"}
    assert env.observation_space.contains(env.reset(seed=0)[0])
    env.close()


def test_other_observations_are_left_alone():
    assert not has_text(spaces.Dict(number=spaces.Box(0, 1, (1,)), mode=spaces.Discrete(2)))
    assert not has_text(spaces.Text(5)), "not a Dict"
    with make_env("CartPole-v1") as env:
        assert not isinstance(env, DropText)


def test_observations_of_text_alone_are_refused(monkeypatch):
    monkeypatch.setattr(Talking, "observation_space", spaces.Dict(note=spaces.Text(20)))
    with pytest.raises(ValueError, match=r"hold only text \(note\)"):
        DropText(Talking())
