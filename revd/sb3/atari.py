"""Atari games for Stable-Baselines3: an adapter around ale-py's native vector environment."""

import time
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from revd.envs.atari import MAX_FRAMES, NO_OPS, make_atari
from revd.envs.sparse import TASK_REWARD, check_probability, sparse_generator


class AtariVecEnv(VecEnv):
    """
    `n_envs` copies of one game, by its ROM's name (`space_invaders`), preprocessed as `make_atari` says.

    The agent is paid the sign of the score's change, zeroed with probability `sparse`, and a lost life ends its
    episode. The game goes on from there, and what is reported (`info["episode"]`, as from a Monitor) is the score of
    whole games and their length in the agent's steps; `info["task_reward"]` is the untouched change of a step.
    """

    def __init__(
        self,
        game: str,
        n_envs: int,
        *,
        sparse: float | None = None,
        threads: int = 1,
        render_mode: str | None = None,
        max_frames: int = MAX_FRAMES,
        no_ops: int = NO_OPS,
        fire_reset: bool = True,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        if sparse is not None:
            check_probability(sparse)
        games: dict[str, Any] = {
            "max_frames": max_frames,
            "no_ops": no_ops,
            "fire_reset": fire_reset,
            "threads": threads,
        }
        self._native = make_atari(game, n_envs, **games)
        # The native environment shows no colours, so a second one plays the same games for the eyes.
        self._screen = None if render_mode is None else make_atari(game, n_envs, **games, colour=True)
        self._render_mode = render_mode
        super().__init__(n_envs, self._native.single_observation_space, self._native.single_action_space)
        self._sparse = sparse or 0.0
        self._generator = sparse_generator(None)
        self._actions = np.zeros(n_envs, np.int64)
        self._images: NDArray[np.uint8] | None = None
        self._game_starts: NDArray[np.int64] | None = None
        self._scores = np.zeros(n_envs)
        self._lengths = np.zeros(n_envs, np.int64)
        self._began = time.monotonic()

    def reset(self) -> NDArray[np.uint8]:
        """Start new games; `seed` before it makes them repeatable."""
        if self._game_starts is None and self._seeds[0] is None:
            self.seed()
        seeds = None
        if self._seeds[0] is not None:
            self._generator = sparse_generator(self._seeds[0])
            # C++ takes its seeds as 32-bit integers with a sign.
            seeds = np.array(self._seeds, np.int64) % 2**31
        observations: NDArray[np.uint8]
        observations, info = self._native.reset(seed=seeds)
        if self._screen is not None:
            self._images = self._screen.reset(seed=seeds)[0]
        self._reset_seeds()
        self._reset_options()
        self._game_starts = _game_starts(info)
        self._scores[:] = 0
        self._lengths[:] = 0
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take note of the actions."""
        assert isinstance(self.action_space, spaces.Discrete)
        known = np.arange(int(self.action_space.n))
        if actions.shape != (self.num_envs,) or not np.isin(actions, known).all():
            # The native environment would wait for ever.
            raise ValueError(f"actions must be {self.num_envs} elements of {self.action_space}, got {actions}")
        self._actions = actions.astype(np.int64)

    def step_wait(self) -> VecEnvStepReturn:
        """Play four frames of every game; finished games start anew within the step."""
        observations, scores, terminated, truncated, info = self._native.step(self._actions)
        if self._screen is not None:
            self._images = self._screen.step(self._actions)[0]
        starts = _game_starts(info)
        game_over = starts != self._game_starts
        self._game_starts = starts
        self._scores += scores
        self._lengths += 1
        dones = terminated | truncated
        infos: list[dict[str, Any]] = [
            {TASK_REWARD: float(score), "TimeLimit.truncated": bool(late)}
            for score, late in zip(scores, truncated, strict=True)
        ]
        for index in map(int, np.flatnonzero(dones)):
            # Only the end of a game has a final observation; at the loss of a life the buffer holds something older.
            last = info["final_obs"] if game_over[index] else observations
            infos[index]["terminal_observation"] = last[index].copy()
            if game_over[index]:
                infos[index]["episode"] = self._finish(index)
        return observations, self._shown(scores), dones, infos

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """The screens in colour, (210, 160, 3) each; None without `render_mode="rgb_array"`, or before a reset."""
        if self._images is None:
            return [None] * self.num_envs
        return list(self._images[:, -1])

    def close(self) -> None:
        """Close the games."""
        self._native.close()
        if self._screen is not None:
            self._screen.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute of the native environment, which is the same for all games."""
        value = self._render_mode if attr_name == "render_mode" else getattr(self._native, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Not possible: the games live in C++."""
        raise NotImplementedError(f"{attr_name!r} cannot be set: the games are no Python objects")

    def env_method(self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **_: Any) -> list[Any]:
        """Not possible: the games live in C++."""
        raise NotImplementedError(f"{method_name!r} cannot be called: the games are no Python objects")

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Like environments inside a Monitor: whoever evaluates finds the scores of whole games in `info`."""
        return [issubclass(Monitor, wrapper_class) for _ in self._get_indices(indices)]

    def _finish(self, index: int) -> dict[str, float]:
        seconds = round(time.monotonic() - self._began, 6)
        report = {"r": float(self._scores[index]), "l": int(self._lengths[index]), "t": seconds}
        self._scores[index] = 0
        self._lengths[index] = 0
        return report

    def _shown(self, scores: NDArray[np.int32]) -> NDArray[np.float32]:
        rewards: NDArray[np.float32] = np.sign(scores).astype(np.float32)
        if self._sparse:
            rewards[self._generator.random(self.num_envs) < self._sparse] = 0
        return rewards


def _game_starts(info: dict[str, NDArray[np.int32]]) -> NDArray[np.int64]:
    """The frame at which each current game began, which changes exactly when a new one starts."""
    return info["frame_number"].astype(np.int64) - info["episode_frame_number"]
