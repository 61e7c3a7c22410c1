"""EnvPool's tasks are those of Gymnasium: the same observations, rewards and ends, or the same levels on average."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip("envpool", reason="EnvPool is not installed: pip install 'revd[envpool]'")

from revd.envs.envpool import CODES, has_task, make_pool, observation_format
from revd.envs.make import make_env
from revd.envs.minigrid import CODES as GYMNASIUM_CODES
from revd.envs.minigrid import OneHotImage
from revd.envs.tasks import TASKS

MINIGRID = sorted(task.gymnasium_id for task in TASKS.values() if task.family == "minigrid")
CLASSIC = sorted(task.gymnasium_id for task in TASKS.values() if task.family == "classic")


def pool_of(task_id, n_envs=1, seed=0):
    pool = make_pool(task_id, n_envs, seed=seed)
    space, convert = observation_format(task_id, pool.observation_space)
    return pool, space, convert


def test_codes_are_minigrids():
    assert CODES == GYMNASIUM_CODES


def test_unknown_ids_are_not_there():
    assert not has_task("NoSuchTask-v0")


@pytest.mark.parametrize("task_id", [*CLASSIC, *MINIGRID])
def test_it_has_every_task_with_the_same_spaces(task_id):
    assert has_task(task_id)
    task = next(task for task in TASKS.values() if task.gymnasium_id == task_id)
    expected = make_env(task)
    pool, space, _ = pool_of(task_id)
    assert space.shape == expected.observation_space.shape
    assert space.dtype == expected.observation_space.dtype
    np.testing.assert_allclose(space.low, expected.observation_space.low, rtol=1e-6)
    assert pool.action_space == expected.action_space
    limit = expected.spec.max_episode_steps or expected.unwrapped.max_steps
    assert pool.spec.config.max_episode_steps == limit


@pytest.mark.parametrize("task_id", ["MiniGrid-Empty-5x5-v0", "MiniGrid-Empty-6x6-v0"])
def test_the_same_level_and_actions_give_the_same_images(task_id):
    """These levels are always alike; 2,000 random steps, several episodes that reach the goal among them."""
    expected = OneHotImage(gymnasium.make(task_id))
    pool, _, convert = pool_of(task_id)
    generator = np.random.default_rng(0)
    observation, _ = expected.reset(seed=0)
    found = convert(pool.reset()[0])[0]
    goals = 0
    for _ in range(2000):
        np.testing.assert_array_equal(found, observation)
        action = int(generator.integers(7))
        observation, reward, terminated, truncated, _ = expected.step(action)
        received, rewards, ends, cuts, info = pool.step(np.array([action], np.int32))
        found = convert(received)[0]
        assert rewards[0] == pytest.approx(reward, abs=1e-6)
        assert (ends[0], cuts[0]) == (terminated, truncated)
        assert info["agent_pos"][0].tolist() == list(expected.unwrapped.agent_pos)
        if terminated or truncated:
            np.testing.assert_array_equal(found, observation)
            goals += terminated
            observation, _ = expected.reset()
            found = convert(pool.reset(np.array([0], np.int32))[0])[0]
    assert goals >= 1


@pytest.mark.parametrize("task_id", MINIGRID)
def test_levels_are_drawn_from_the_same_distribution(task_id):
    """How often each cell of the first view has each code, over 300 levels of both: no difference beyond chance."""
    levels = 300
    env = make_env(next(task for task in TASKS.values() if task.gymnasium_id == task_id))
    theirs = np.mean([env.reset(seed=seed)[0] for seed in range(levels)], axis=0, dtype=np.float64)
    pool, _, convert = pool_of(task_id, levels)
    ours = convert(pool.reset()[0]).mean(axis=0, dtype=np.float64)
    error = np.sqrt((theirs * (1 - theirs) + ours * (1 - ours)) / levels)
    # With some thousand numbers, five standard errors leave one in a thousand tests to chance.
    assert (np.abs(ours - theirs) <= 5 * np.maximum(error, 1 / levels)).all()
    assert 0 < np.abs(ours - theirs).max() < 0.25 or np.array_equal(ours, theirs)


@pytest.mark.parametrize("task_id", ["MountainCar-v0", "MountainCarContinuous-v0"])
def test_mountain_cars_move_alike(task_id):
    """An agent that pushes in the direction in which it moves, which leads to the flag."""
    pool, _, _ = pool_of(task_id)
    car = gymnasium.make(task_id).unwrapped
    car.reset(seed=0)
    found = pool.reset()[0]
    # Positions begin at a float32 here and at a float64 there.
    car.state = found[0].astype(np.float64)
    discrete = task_id == "MountainCar-v0"
    for _ in range(200):
        action = 2 * (found[0, 1] >= 0) if discrete else np.where(found[0, 1:] >= 0, np.float32(0.9), np.float32(-1))
        expected, reward, terminated, *_ = car.step(action)
        found, rewards, ends, *_ = pool.step(np.array([action], np.int32 if discrete else np.float32))
        np.testing.assert_allclose(found[0], expected, atol=1e-6)
        assert rewards[0] == pytest.approx(reward, abs=1e-5)
        assert ends[0] == terminated
        if terminated:
            return
    pytest.fail("the flag was not reached")


def test_seeds_are_the_environments_own():
    first, second, other = (pool_of("MountainCar-v0", 4, seed=seed)[0].reset()[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not (first == other).all(axis=1).any()
    assert len(np.unique(first[:, 0])) == 4
