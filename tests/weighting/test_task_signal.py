"""Whether the task's returns vary, against a loop over single steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revd.weighting.task_signal import TaskSignal

N_STEPS, N_ENVS = 4, 2


def share_of(speaks):
    counts = [0.9 ** (len(speaks) - 1 - index) for index in range(len(speaks))]
    return sum(count * each for count, each in zip(counts, speaks, strict=True)) / sum(counts)


def observed(signal, rewards, dones, valid=None):
    rewards, dones = np.asarray(rewards, dtype=np.float32), np.asarray(dones, dtype=bool)
    return signal.observe(rewards, dones, np.ones_like(dones) if valid is None else valid)


def constant(reward, dones):
    return np.full((N_STEPS, N_ENVS), reward), dones


#: Every episode has four steps, or one has two.
EQUAL = np.array([[0, 0], [0, 0], [0, 0], [1, 1]], dtype=bool)
EARLY = np.array([[0, 0], [0, 1], [0, 0], [1, 0]], dtype=bool)


@pytest.mark.parametrize(
    ("rewards", "dones", "speaks"),
    [
        (0.0, EQUAL, 0),
        (0.0, EARLY, 0),
        (-1.0, EQUAL, 0),
        (-1.0, EARLY, 1),
        (1.0, EARLY, 1),
        (-1.0, np.zeros_like(EQUAL), 0),
    ],
    ids=["silent", "silent with lengths", "constant", "early goal", "survival", "no end yet"],
)
def test_a_constant_reward_says_something_if_episodes_differ_in_length(rewards, dones, speaks):
    assert observed(TaskSignal(N_ENVS), *constant(rewards, dones)) == speaks


def test_rewards_that_differ_say_something():
    rewards = np.zeros((N_STEPS, N_ENVS))
    rewards[2, 1] = 1
    assert observed(TaskSignal(N_ENVS), rewards, EQUAL) == 1


def test_a_change_between_two_rollouts_is_seen():
    signal = TaskSignal(N_ENVS)
    assert observed(signal, *constant(-1.0, EQUAL)) == 0
    assert observed(signal, *constant(-2.0, EQUAL)) == pytest.approx(share_of([0, 1]))
    assert observed(signal, *constant(-2.0, EQUAL)) == pytest.approx(share_of([0, 1, 0]))


def test_an_episode_is_as_long_as_it_is_over_several_rollouts():
    """Episodes of twelve steps end with every third rollout, and then one after eight."""
    signal, none = TaskSignal(N_ENVS), np.zeros_like(EQUAL)
    speaks = []
    for dones, expected in ((none, 0), (none, 0), (EQUAL, 0), (none, 0), (none, 0), (EQUAL, 0), (none, 0), (EQUAL, 1)):
        speaks.append(expected)
        assert observed(signal, *constant(-1.0, dones)) == pytest.approx(share_of(speaks))


@given(
    lengths=st.lists(st.lists(st.integers(1, 11), min_size=1, max_size=3), min_size=2, max_size=2),
    reward=st.sampled_from([0.0, -1.0]),
    rollouts=st.integers(1, 8),
)
def test_against_a_loop_over_steps(lengths, reward, rollouts):
    signal, speaks = TaskSignal(N_ENVS), []
    finished, running, turns = [], [0] * N_ENVS, [0] * N_ENVS
    for _ in range(rollouts):
        dones = np.zeros((N_STEPS, N_ENVS), dtype=bool)
        before = finished[-1:]
        ended = []
        for env in range(N_ENVS):
            for step in range(N_STEPS):
                running[env] += 1
                if running[env] == lengths[env][turns[env] % len(lengths[env])]:
                    dones[step, env] = True
                    ended.append(running[env])
                    running[env], turns[env] = 0, turns[env] + 1
        finished += ended
        speaks.append(reward != 0 and len(ended) > 0 and len({*before, *ended}) > 1)
        assert observed(signal, *constant(reward, dones)) == pytest.approx(share_of(speaks))


def test_padded_steps_say_nothing():
    rewards, dones = constant(-1.0, EARLY)
    rewards = rewards.copy()
    rewards[2:, 1] = 99.0
    valid = np.ones_like(dones)
    valid[2:, 1] = False
    dones = dones.copy()
    dones[:, 0] = False
    dones[3, 1] = True
    assert observed(TaskSignal(N_ENVS), rewards, dones, valid) == 0


def test_an_end_in_a_padded_step_is_none():
    padded = EQUAL.copy()
    padded[1, 0] = True
    valid = np.ones_like(padded)
    valid[1:, 0] = False
    assert observed(TaskSignal(N_ENVS), *constant(-1.0, padded)) == 1
    assert observed(TaskSignal(N_ENVS), *constant(-1.0, padded), valid) == 0


def test_the_state_is_in_buffers():
    signal = TaskSignal(N_ENVS)
    observed(signal, *constant(-1.0, EQUAL))
    fresh = TaskSignal(N_ENVS)
    fresh.load_state_dict(signal.state_dict())
    assert observed(fresh, *constant(-1.0, EARLY)) == observed(signal, *constant(-1.0, EARLY)) > 0
