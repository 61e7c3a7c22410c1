"""A task whose episodes are all alike, whatever the actions: `tests.support.clockwork:Clockwork-v0`."""

import gymnasium
import numpy as np
from gymnasium import spaces

LENGTH = 16


class Clockwork(gymnasium.Env):
    """Shows the step of the episode, and its square modulo 7. The first is -1 at the start, which no step leads to."""

    observation_space = spaces.Box(-1, LENGTH, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.now = -1
        return self._observe(), {}

    def step(self, action):
        self.now += 1
        return self._observe(), 0.0, False, self.now == LENGTH - 1, {}

    def _observe(self):
        return np.array([self.now, self.now**2 % 7], np.float32)


def cells(observations, infos):
    """The observation as whole numbers."""
    return np.rint(observations).astype(int)


gymnasium.register("Clockwork-v0", Clockwork)
