"""Hand-made episodes of RLlib, as an env runner would return them."""

from typing import Any

import numpy as np
from gymnasium import spaces
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from revd.rllib.episodes import Origin

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
DISCRETE = spaces.Discrete(4)


class Environment:
    """One environment of one env runner, whose episodes are random walks; the steps it has taken are in `log`.

    An entry of the log is (observation, action, reward, next observation, whether the episode ended).
    """

    def __init__(self, runner: int, env: int, *, seed: int) -> None:
        self.runner, self.env = runner, env
        self.rng = np.random.default_rng(seed)
        self.serial = -1
        self.log: list[tuple[Any, Any, float, Any, bool]] = []
        self.episode = self._reset()

    def sample(self, n_steps: int, *, ends: tuple[int, ...] = ()) -> list[SingleAgentEpisode]:
        """Take so many steps, at some of which the episode ends, and return what RLlib would: whole ones and a part."""
        episodes = []
        for step in range(n_steps):
            done = step in ends
            self._step(done=done, terminated=bool(step % 2))
            if done:
                episodes.append(self.episode.to_numpy())
                self.episode = self._reset()
        part = self.episode
        if len(part):
            self.episode = part.cut()
            episodes.append(part.to_numpy())
        return episodes

    def _reset(self) -> SingleAgentEpisode:
        self.serial += 1
        episode = SingleAgentEpisode(observation_space=BOX, action_space=DISCRETE)
        episode.id_ = Origin(self.runner, self.env, self.serial).signed(episode.id_)
        episode.add_env_reset(observation=self._observe(np.zeros(3)))
        return episode

    def _step(self, *, done: bool, terminated: bool) -> None:
        before = self.episode.get_observations(-1)
        after, action, reward = self._observe(before), np.int64(self.rng.integers(4)), float(self.rng.normal())
        ending = {"terminated": done and terminated, "truncated": done and not terminated}
        self.episode.add_env_step(observation=after, action=action, reward=reward, **ending)
        self.log.append((before, action, reward, after, done))

    def _observe(self, before: Any) -> Any:
        return (before + self.rng.normal(size=3)).astype(np.float32)
