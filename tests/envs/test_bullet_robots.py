"""The robots with few calls, step by step against the package's."""

import pickle

import gymnasium
import numpy as np
import pytest
from stable_baselines3.common.vec_env import SubprocVecEnv

from revd.envs.make import make_env
from revd.envs.tasks import TASKS
from tests.support.bullet import needs_pybullet

pytestmark = needs_pybullet

ROBOTS = ["ant", "half-cheetah", "hopper", "humanoid", "walker-2d"]


def make_pair(robot):
    """Ours, and the package's own."""
    task = TASKS[f"bullet/{robot}"]
    ours = make_env(task)
    return ours, gymnasium.make(task.gymnasium_id)


def assert_equal_numbers(first, second):
    assert first.dtype == second.dtype
    assert first.tobytes() == second.tobytes()


def assert_equal_play(ours, package, *, seed, steps, scale=1.3, dtype=np.float32):
    """Random actions, some beyond the space; the number of resets is returned."""
    random = np.random.default_rng(seed)
    assert_equal_numbers(ours.reset(seed=seed)[0], package.reset(seed=seed)[0])
    resets = 0
    for _ in range(steps):
        action = random.uniform(-scale, scale, package.action_space.shape).astype(dtype)
        (observation, *rest), (expected, *expected_rest) = ours.step(action), package.step(action)
        assert_equal_numbers(observation, expected)
        assert rest == expected_rest
        assert list(map(type, rest)) == list(map(type, expected_rest))
        assert ours.unwrapped.rewards == package.unwrapped.rewards
        if rest[1] or rest[2]:
            resets += 1
            assert_equal_numbers(ours.reset()[0], package.reset()[0])
    return resets


@pytest.mark.parametrize("robot", ROBOTS)
def test_every_number_is_the_packages(robot):
    ours, package = make_pair(robot)
    with ours, package:
        resets = [assert_equal_play(ours, package, seed=seed, steps=150) for seed in (0, 1)]
        assert_equal_play(ours, package, seed=2, steps=50, scale=0.1)
    assert all(resets) or robot in ("ant", "half-cheetah")


@pytest.mark.parametrize("robot", ["half-cheetah", "hopper"])
def test_whole_episodes_to_the_time_limit_and_their_successors(robot, monkeypatch):
    ours, package = make_pair(robot)
    with ours, package:
        for env in (ours, package):
            monkeypatch.setattr(type(env.unwrapped), "_isDone", lambda self: False)
        assert assert_equal_play(ours, package, seed=3, steps=1010) == 1


@pytest.mark.parametrize("robot", ["hopper", "humanoid"])
def test_actions_of_other_types(robot):
    ours, package = make_pair(robot)
    with ours, package:
        assert_equal_play(ours, package, seed=4, steps=30, dtype=np.float64)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_actions_that_are_not_finite_are_refused(bad):
    ours, package = make_pair("hopper")
    for env in (ours, package):
        with env:
            env.reset(seed=0)
            with pytest.raises(AssertionError):
                env.step(np.array([0, bad, 0], np.float32))


def test_joints_just_beside_their_limit_are_counted_as_in_float32():
    from revd.envs.bullet_robots import _AT_LIMIT

    middles = [np.nextafter(_AT_LIMIT, 0), _AT_LIMIT, np.nextafter(_AT_LIMIT, 1), 0.99, np.nextafter(0.99, 1)]
    assert [value > _AT_LIMIT for value in middles] == (np.array(middles, np.float32) > 0.99).tolist()


@pytest.mark.parametrize("robot", ROBOTS)
def test_wrappers_and_specification_are_gymnasiums(robot):
    ours, package = make_pair(robot)
    with ours, package:
        wrapped = ours.env  # below the one that silences the first reset
        while isinstance(package, gymnasium.Wrapper):
            assert type(wrapped) is type(package)
            wrapped, package = wrapped.env, package.env
        assert isinstance(wrapped, type(package))
        assert ours.spec.id == TASKS[f"bullet/{robot}"].gymnasium_id
        assert ours.spec.max_episode_steps == 1000
        assert gymnasium.spec(ours.spec.id).entry_point != ours.spec.entry_point, "the registered one is as it was"
        with gymnasium.make(ours.env.spec) as again:
            assert type(again.unwrapped) is type(ours.unwrapped)


def test_two_environments_do_not_touch_each_other():
    ours, package = make_pair("hopper")
    other = make_env("bullet/hopper")
    with ours, package, other:
        other.reset(seed=9)
        random = np.random.default_rng(0)
        assert_equal_numbers(ours.reset(seed=0)[0], package.reset(seed=0)[0])
        for _ in range(10):
            other.step(random.uniform(-1, 1, 3).astype(np.float32))
            action = random.uniform(-1, 1, 3).astype(np.float32)
            assert_equal_numbers(ours.step(action)[0], package.step(action)[0])


def test_pictures_are_the_packages():
    task = TASKS["bullet/hopper"]
    ours, package = make_env(task, render_mode="rgb_array"), gymnasium.make(task.gymnasium_id, render_mode="rgb_array")
    with ours, package:
        for env in (ours, package):
            env.reset(seed=0)
            env.step(np.ones(3, np.float32))
        assert np.array_equal(ours.render(), package.render())


def test_it_can_be_pickled_before_the_first_reset_and_played_in_another_process():
    with make_env("bullet/ant") as env:
        copy = pickle.loads(pickle.dumps(env))
        with copy:
            assert_equal_numbers(env.reset(seed=1)[0], copy.reset(seed=1)[0])
    processes = SubprocVecEnv([lambda: make_env("bullet/hopper")])
    try:
        processes.seed(0)
        assert processes.reset().shape == (1, 15)
        assert processes.step(np.zeros((1, 3), np.float32))[0].shape == (1, 15)
    finally:
        processes.close()
