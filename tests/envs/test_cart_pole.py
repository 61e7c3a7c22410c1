import math
import warnings

import gymnasium
import gymnasium.utils.env_checker
import numpy as np
import pytest
from stable_baselines3.common.env_checker import check_env as sb3_check_env

from revd.envs.make import make_env
from tests.support.bullet import needs_pybullet

pytestmark = needs_pybullet

MAX_ANGLE = 0.2094
MAX_POSITION = 0.4


@pytest.fixture
def env():
    with make_env("bullet/cart-pole") as made:
        yield made


def play(env, seed, forces):
    observations = [env.reset(seed=seed)[0]]
    observations += [env.step(np.array([force], np.float32))[0] for force in forces]
    return np.array(observations)


@pytest.mark.parametrize("check", [gymnasium.utils.env_checker.check_env, sb3_check_env], ids=["gymnasium", "sb3"])
def test_the_checkers_find_no_errors(check, env):
    # The action is the force in N, as in the original, and velocities have no bound: both are meant.
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        check(env.unwrapped)
    accepted = ("symmetric and normalized", "value is -infinity", "value is infinity")
    assert record
    assert all(any(text in str(entry.message) for text in accepted) for entry in record)


def test_spaces(env):
    assert env.action_space == gymnasium.spaces.Box(-10, 10, (1,))
    assert env.observation_space.shape == (4,)
    assert env.observation_space.dtype == np.float32


def test_equal_seeds_give_equal_episodes_in_any_environment(env):
    forces = np.random.default_rng(0).uniform(-10, 10, 20)
    first = play(env, 3, forces)
    play(env, 4, forces)
    with make_env("bullet/cart-pole") as other:
        play(other, 9, forces)
        for again in (play(env, 3, forces), play(other, 3, forces)):
            np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, play(env, 4, forces))


def test_environments_do_not_share_a_simulation():
    envs = [make_env("bullet/cart-pole") for _ in range(3)]
    alone = play(envs[0], 1, [5.0] * 10)
    for env in envs:
        env.reset(seed=1)
    for _ in range(10):
        pushed = [env.step(np.array([force], np.float32))[0] for env, force in zip(envs, (5, -5, 0), strict=True)]
    np.testing.assert_array_equal(pushed[0], alone[-1])
    assert pushed[1][2] < pushed[2][2] < pushed[0][2], "the cart goes where it is pushed"
    for env in envs:
        env.close()


def test_it_starts_within_five_hundredths(env):
    starts = np.array([env.reset(seed=seed)[0] for seed in range(200)])
    assert np.abs(starts).max() <= 0.05
    assert np.abs(starts).max(axis=0).min() > 0.045
    assert np.abs(starts.mean(axis=0)).max() < 0.01


def step_by_newtons_law(state, force):
    """The equations of motion of a cart with a pole on top, without friction, integrated over one step."""
    angle, spin, position, speed = state
    # cartpole.urdf: 1 kg of cart; 0.1 kg of pole, a rod of length 1 with its centre 0.5 above the joint. PyBullet takes
    # the moment of inertia from the shape, not from the file.
    cart, pole, length = 1.0, 0.1, 0.5
    inertia = pole / 12 * (1**2 + 0.05**2)
    masses = np.array(
        [[cart + pole, pole * length * math.cos(angle)], [pole * length * math.cos(angle), inertia + pole * length**2]]
    )
    forces = [force + pole * length * spin**2 * math.sin(angle), pole * 9.8 * length * math.sin(angle)]
    acceleration, angular = np.linalg.solve(masses, forces)
    speed, spin = speed + 0.02 * acceleration, spin + 0.02 * angular
    return np.array([angle + 0.02 * spin, spin, position + 0.02 * speed, speed])


def test_one_step_is_newtons_law(env):
    start = env.reset(seed=0)[0].astype(float)
    after = env.step(np.array([10.0], np.float32))[0]
    np.testing.assert_allclose(after, step_by_newtons_law(start, 10.0), atol=1e-6)


@pytest.mark.parametrize("force", [0.0, 3.0, 10.0])
def test_many_steps_are_without_friction(env, force):
    """By default, PyBullet damps the speed of every body by 4% per second."""
    state = env.reset(seed=0)[0].astype(float)
    for _ in range(12):
        after = env.step(np.array([force], np.float32))[0]
        state = step_by_newtons_law(state, force)
    np.testing.assert_allclose(after, state, rtol=1e-4)


@pytest.mark.parametrize("force", [-10.0, 10.0, 0.0])
def test_it_terminates_outside_the_limits_and_not_before(env, force):
    observation, _ = env.reset(seed=1)
    terminated, steps = False, 0
    while not terminated:
        assert abs(observation[0]) <= MAX_ANGLE + 1e-4
        assert abs(observation[2]) <= MAX_POSITION
        observation, reward, terminated, truncated, _ = env.step(np.array([force], np.float32))
        steps += 1
        assert (reward, truncated) == (1.0, False)
    assert abs(observation[0]) > MAX_ANGLE - 1e-4 or abs(observation[2]) > MAX_POSITION
    assert 5 < steps < 200


def test_a_balanced_pole_is_truncated_after_two_hundred_steps(env):
    observation, _ = env.reset(seed=2)
    for step in range(1, 201):
        angle, spin, position, speed = observation
        force = np.clip(80 * angle + 25 * spin + 5 * position + 8 * speed, -10, 10)
        observation, _, terminated, truncated, _ = env.step(np.array([force], np.float32))
        assert not terminated
        assert truncated == (step == 200)


def test_forces_beyond_the_limit_are_clipped(env):
    np.testing.assert_array_equal(play(env, 0, [1000.0])[-1], play(env, 0, [10.0])[-1])


def test_rendering():
    with make_env("bullet/cart-pole", render_mode="rgb_array") as env:
        env.reset(seed=0)
        before = env.render()
        for _ in range(10):
            env.step(np.array([10.0], np.float32))
        after = env.render()
    assert before.dtype == np.uint8
    assert before.shape == (320, 480, 3)
    assert before.std() > 10, "something is to be seen"
    assert not np.array_equal(before, after)


def test_without_a_render_mode_there_is_no_picture(env):
    env.reset(seed=0)
    assert env.unwrapped.render() is None
    with pytest.raises(ValueError, match="render_mode must be None or 'rgb_array', got 'human'"):
        type(env.unwrapped)(render_mode="human")


def test_closing_disconnects_and_a_reset_connects_again(env):
    import pybullet

    first = play(env, 3, [1.0])
    client = env.unwrapped._client
    env.close()
    assert not pybullet.isConnected(client)
    env.close()
    np.testing.assert_array_equal(first, play(env, 3, [1.0]))
