"""EnvPool's environments for Stable-Baselines3."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from revd.arrays import Array
from revd.envs.envpool import make_pool, observation_format
from revd.envs.sparse import TASK_REWARD, check_probability
from revd.training.native_vec_env import NativeVecEnv


class EnvPoolVecEnv(NativeVecEnv):
    """Copies of an environment of EnvPool.

    As in SB3, an episode's end and the start of the next are one step: the environments whose episode ended are reset
    at once, so that `info["terminal_observation"]` is the true one. `info["episode"]` reports episodes as a Monitor
    does. In grid worlds, `info["agent_pos"]` is the agent's position.

    Args:
        task_id: The task's id, such as `MiniGrid-DoorKey-8x8-v0`.
        n_envs: Number of copies.
        sparse: Probability with which a step's reward is set to zero, while `info["task_reward"]` keeps the original;
            None for never.
        threads: Threads that step the environments.
    """

    def __init__(self, task_id: str, n_envs: int, *, sparse: float | None = None, threads: int = 1) -> None:
        if sparse is not None:
            check_probability(sparse)
        self._id = task_id
        self._threads = threads
        self._pool = make_pool(task_id, n_envs, seed=0, threads=threads)
        space, self._convert = observation_format(task_id, self._pool.observation_space)
        super().__init__(n_envs, space, self._pool.action_space, sparse=sparse)
        self._actions: Array = np.zeros(0)
        self._restart_episodes()

    def reset(self) -> VecEnvObs:
        """Start new episodes; call `seed` first to make them repeatable."""
        seeds = self._seeds_of_reset()
        if seeds is not None:
            self._pool.close()
            self._pool = make_pool(self._id, self.num_envs, seed=seeds[0], threads=self._threads)
        self._restart_episodes()
        observations, _ = self._pool.reset()
        return self._convert(observations)  # type: ignore[no-any-return]

    def step_async(self, actions: Array) -> None:
        """Check the actions and keep them for `step_wait`."""
        self._actions = self._checked(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Step all environments and reset those whose episode ended."""
        received, rewards, terminated, truncated, info = self._pool.step(self._actions)
        observations = self._convert(received)
        rewards = rewards.astype(np.float32)
        dones = terminated | truncated
        infos = self._infos(rewards, terminated, truncated, info)
        self._returns += rewards
        self._lengths += 1
        if dones.any():
            self._reset_ended(np.flatnonzero(dones), observations, infos)
        return observations, self._with_sparsity(rewards), dones, infos

    def close(self) -> None:
        """Close the environments."""
        self._pool.close()

    @property
    def _native(self) -> Any:
        return self._pool

    def _restart_episodes(self) -> None:
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)
        self._episodes_started = time.monotonic()

    def _infos(self, rewards: Array, terminated: Array, truncated: Array, info: dict[str, Any]) -> list[dict[str, Any]]:
        timed_out = (truncated & ~terminated).tolist()
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": value} for value in timed_out]
        if self._sparse is not None:
            for entry, reward in zip(infos, rewards.tolist(), strict=True):
                entry[TASK_REWARD] = reward
        if "agent_pos" in info:
            for entry, position in zip(infos, info["agent_pos"].tolist(), strict=True):
                entry["agent_pos"] = tuple(position)
        return infos

    def _reset_ended(self, ended: Array, observations: Any, infos: list[dict[str, Any]]) -> None:
        """Report the ended episodes and replace their last observations by the first of the next episodes."""
        first = self._convert(self._pool.reset(ended.astype(np.int32))[0])
        seconds = round(time.monotonic() - self._episodes_started, 6)
        for row, env in enumerate(ended.tolist()):
            infos[env]["terminal_observation"] = _row(observations, env)
            infos[env]["episode"] = {"r": float(self._returns[env]), "l": int(self._lengths[env]), "t": seconds}
            _put_row(observations, env, first, row)
        self._returns[ended] = 0
        self._lengths[ended] = 0

    def _checked(self, actions: Array) -> Array:
        """Return the actions in EnvPool's dtype, checked, because EnvPool does not check them."""
        space = self.action_space
        expected = (self.num_envs, *(space.shape or ()))
        fits = np.shape(actions) == expected
        if fits and isinstance(space, spaces.Discrete):
            first, last = int(space.start), int(space.start) + int(space.n) - 1
            fits = bool(((actions >= first) & (actions <= last)).all())
        if not fits:
            raise ValueError(f"actions must be {self.num_envs} elements of {space}, got {actions}")
        return np.ascontiguousarray(actions, np.int32 if isinstance(space, spaces.Discrete) else space.dtype)


def _row(observations: Any, env: int) -> Any:
    if isinstance(observations, dict):
        return {key: part[env].copy() for key, part in observations.items()}
    return observations[env].copy()


def _put_row(observations: Any, env: int, source: Any, row: int) -> None:
    if isinstance(observations, dict):
        for key, part in observations.items():
            part[env] = source[key][row]
        return
    observations[env] = source[row]
