from itertools import pairwise

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from revd.envs.sparse import SparseReward


class Paying(gymnasium.Env):
    """Pays 1, 2, 3, …; its own random numbers are its observations."""

    observation_space = spaces.Box(0, 1, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.paid = 0
        return self._observe(), {}

    def step(self, action):
        self.paid += 1
        return self._observe(), self.paid, False, False, {"paid": self.paid}

    def _observe(self):
        return self.np_random.random(1).astype(np.float32)


def rewards(env, steps, seed=None):
    env.reset(seed=seed)
    return np.array([env.step(0)[1] for _ in range(steps)])


def test_one_reward_in_ten_is_left_unchanged():
    shown = rewards(SparseReward(Paying()), 5_000, seed=0)
    assert 0.88 < (shown == 0).mean() < 0.92
    np.testing.assert_array_equal(shown[shown != 0], np.arange(1, 5_001)[shown != 0])


@pytest.mark.parametrize("probability", [0.0, 0.5, 1.0])
def test_the_probability_is_that_of_zero(probability):
    shown = rewards(SparseReward(Paying(), probability), 2_000, seed=0)
    assert (shown == 0).mean() == pytest.approx(probability, abs=0.04 if 0 < probability < 1 else 0)


def test_the_unchanged_reward_is_in_the_info():
    env = SparseReward(Paying(), 1.0)
    env.reset(seed=0)
    for step in range(1, 10):
        _, shown, _, _, info = env.step(0)
        assert shown == 0
        assert info == {"paid": step, "task_reward": step}


def test_equal_seeds_hide_equal_steps():
    env = SparseReward(Paying())
    first, other, again = (rewards(env, 300, seed) for seed in (1, 2, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_reset_without_a_seed_continues_the_draws():
    env = SparseReward(Paying())
    episodes = [rewards(env, 300, seed) for seed in (1, None, None)]
    assert all(not np.array_equal(one, other) for one, other in pairwise(episodes))
    again = [rewards(env, 300, seed) for seed in (1, None, None)]
    np.testing.assert_array_equal(episodes, again)


def test_the_draws_are_independent_of_the_task():
    env = SparseReward(Paying(), 0.5)
    drawn = [float(env.reset(seed=1)[0][0])]
    hidden = []
    for _ in range(400):
        observation, reward, *_ = env.step(0)
        drawn.append(float(observation[0]))
        hidden.append(reward == 0)
    for numbers in (drawn[:-1], drawn[1:]):
        assert abs(np.corrcoef(np.array(numbers) < 0.5, hidden)[0, 1]) < 0.15


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_invalid_probabilities_are_refused(probability):
    with pytest.raises(ValueError, match=rf"sparse .* must lie in \[0, 1\], got {probability}"):
        SparseReward(Paying(), probability)
