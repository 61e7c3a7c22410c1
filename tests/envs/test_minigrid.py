import gymnasium
import minigrid  # noqa: F401  registers the levels that are made by id here
import numpy as np
import pytest
import torch
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX
from minigrid.wrappers import FullyObsWrapper, ImgObsWrapper

from revd.envs.make import make_env
from revd.envs.minigrid import CODES, OneHotImage
from revd.envs.tasks import TASKS
from revd.spaces import features

LEVELS = [task for task in TASKS.values() if task.family == "minigrid"]


def decode(codes):
    """The codes of each cell from MiniGrid."""
    parts = np.split(codes, np.cumsum(CODES)[:-1], axis=2)
    return np.stack([part.argmax(axis=2) for part in parts], axis=2)


@pytest.mark.parametrize("task", LEVELS, ids=lambda task: task.name)
def test_codes_can_be_read_back(task):
    plain = ImgObsWrapper(gymnasium.make(task.gymnasium_id))
    with make_env(task) as env:
        assert env.observation_space.shape == (7, 7, 21)
        expected, observation = plain.reset(seed=3)[0], env.reset(seed=3)[0]
        for action in np.random.default_rng(0).integers(7, size=60):
            assert env.observation_space.contains(observation)
            assert (observation.sum(axis=2) == 3).all(), "one of each kind"
            np.testing.assert_array_equal(decode(observation), expected)
            expected, observation = plain.step(action)[0], env.step(action)[0]


def test_there_is_room_for_every_code():
    assert CODES[0] > max(OBJECT_TO_IDX.values())
    assert CODES[1] > max(COLOR_TO_IDX.values())
    assert CODES[2] > max(STATE_TO_IDX.values())
    full = OneHotImage(FullyObsWrapper(gymnasium.make("MiniGrid-DoorKey-5x5-v0")))
    for seed in range(20):
        observation, _ = full.reset(seed=seed)
        assert (observation.sum(axis=2) == 3).all(), "the agent's four directions too"


def test_encoders_leave_the_codes_unchanged():
    with make_env("minigrid/door-key-5x5") as env:
        observation, _ = env.reset(seed=0)
        values = features(env.observation_space, torch.from_numpy(observation)[None])
    assert set(values.unique().tolist()) == {0.0, 1.0}


@pytest.mark.filterwarnings("ignore:the text mission is dropped")
@pytest.mark.parametrize("task", ["minigrid/door-key-5x5", "MiniGrid-DoorKey-5x5-v0"])
def test_infos_hold_the_agents_position(task):
    with make_env(task) as env:
        _, info = env.reset(seed=1)
        assert info["agent_pos"] == tuple(env.unwrapped.agent_pos)
        places = set()
        for action in np.random.default_rng(0).integers(3, size=60):
            *_, info = env.step(action)
            assert info["agent_pos"] == tuple(env.unwrapped.agent_pos)
            assert {type(number) for number in info["agent_pos"]} == {int}
            places.add(info["agent_pos"])
    assert len(places) > 1
