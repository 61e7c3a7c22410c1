"""EnvPool's environments for Stable-Baselines3."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from revd.arrays import Array
from revd.envs.envpool import make_pool, observation_format
from revd.envs.sparse import TASK_REWARD, check_probability, sparse_generator


class EnvPoolVecEnv(VecEnv):
    """
    `n_envs` copies of an environment of EnvPool, by the id of a task (`MiniGrid-DoorKey-8x8-v0`).

    An episode's end and the next one's start are one step, as SB3 has it: EnvPool is asked to reset just those
    environments, so that `info["terminal_observation"]` is the true one. Episodes are reported as by a Monitor, in
    `info["episode"]`. Of grid worlds, `info["agent_pos"]` is where the agent is. With `sparse`, rewards are zeroed with
    that probability, and `info["task_reward"]` keeps the untouched one.
    """

    def __init__(self, task_id: str, n_envs: int, *, sparse: float | None = None, threads: int = 1) -> None:
        if sparse is not None:
            check_probability(sparse)
        self._id = task_id
        self._threads = threads
        self._sparse = sparse
        self._pool = make_pool(task_id, n_envs, seed=0, threads=threads)
        space, self._convert = observation_format(task_id, self._pool.observation_space)
        super().__init__(n_envs, space, self._pool.action_space)
        self._actions: Array = np.zeros(0)
        self._restart_episodes()
        self._generator = sparse_generator(None)
        self._has_started = False

    def reset(self) -> VecEnvObs:
        """Start new episodes; `seed` before it makes them repeatable."""
        if not self._has_started and self._seeds[0] is None:
            self.seed()
        if self._seeds[0] is not None:
            self._pool.close()
            self._pool = make_pool(self._id, self.num_envs, seed=self._seeds[0], threads=self._threads)
            self._generator = sparse_generator(self._seeds[0])
        self._has_started = True
        self._reset_seeds()
        self._reset_options()
        self._restart_episodes()
        observations, _ = self._pool.reset()
        return self._convert(observations)  # type: ignore[no-any-return]

    def step_async(self, actions: Array) -> None:
        """Keep the actions for `step_wait`."""
        self._actions = self._checked(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Step all environments; those whose episode ended start the next one."""
        received, rewards, terminated, truncated, info = self._pool.step(self._actions)
        observations = self._convert(received)
        rewards = rewards.astype(np.float32)
        dones = terminated | truncated
        infos = self._infos(rewards, terminated, truncated, info)
        self._returns += rewards
        self._lengths += 1
        if dones.any():
            self._start_episodes(np.flatnonzero(dones), observations, infos)
        return observations, self._shown(rewards), dones, infos

    def close(self) -> None:
        """Close the environments."""
        self._pool.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Give an attribute of the pool, the same for all environments; none of them can be drawn."""
        value = None if attr_name == "render_mode" else getattr(self._pool, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refuse: the environments live in C++."""
        raise NotImplementedError(f"{attr_name!r} cannot be set: EnvPool's environments are no Python objects")

    def env_method(self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **_: Any) -> list[Any]:
        """Refuse: the environments live in C++."""
        raise NotImplementedError(f"{method_name!r} cannot be called: EnvPool's environments are no Python objects")

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Say that each is inside a Monitor: `info["episode"]` has what one would report."""
        return [issubclass(Monitor, wrapper_class) for _ in self._get_indices(indices)]

    def _restart_episodes(self) -> None:
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, np.int64)
        self._began = time.monotonic()

    def _infos(self, rewards: Array, terminated: Array, truncated: Array, info: dict[str, Any]) -> list[dict[str, Any]]:
        late = (truncated & ~terminated).tolist()
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": is_late} for is_late in late]
        if self._sparse is not None:
            for entry, reward in zip(infos, rewards.tolist(), strict=True):
                entry[TASK_REWARD] = reward
        if "agent_pos" in info:
            for entry, position in zip(infos, info["agent_pos"].tolist(), strict=True):
                entry["agent_pos"] = tuple(position)
        return infos

    def _start_episodes(self, ended: Array, observations: Any, infos: list[dict[str, Any]]) -> None:
        """Note how episodes ended, and put the first observations of the next ones in the place of the last."""
        first = self._convert(self._pool.reset(ended.astype(np.int32))[0])
        seconds = round(time.monotonic() - self._began, 6)
        for row, env in enumerate(ended.tolist()):
            infos[env]["terminal_observation"] = _row(observations, env)
            infos[env]["episode"] = {"r": float(self._returns[env]), "l": int(self._lengths[env]), "t": seconds}
            _put_row(observations, env, first, row)
        self._returns[ended] = 0
        self._lengths[ended] = 0

    def _checked(self, actions: Array) -> Array:
        """The actions in EnvPool's type; it does not check them itself."""
        space = self.action_space
        expected = (self.num_envs, *(space.shape or ()))
        fits = np.shape(actions) == expected
        if fits and isinstance(space, spaces.Discrete):
            first, last = int(space.start), int(space.start) + int(space.n) - 1
            fits = bool(((actions >= first) & (actions <= last)).all())
        if not fits:
            raise ValueError(f"actions must be {self.num_envs} elements of {space}, got {actions}")
        return np.ascontiguousarray(actions, np.int32 if isinstance(space, spaces.Discrete) else space.dtype)

    def _shown(self, rewards: Array) -> Array:
        """The rewards as the agent sees them."""
        if self._sparse is None:
            return rewards
        hidden = self._generator.random(len(rewards)) < self._sparse
        return np.where(hidden, np.float32(0), rewards)


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
