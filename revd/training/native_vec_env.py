"""The base of adapters of C++ environments: seeds, sparse rewards, and SB3's methods for Python environments."""

from abc import abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from revd.envs.sparse import sparse_generator


class NativeVecEnv(VecEnv):
    """Copies of an environment that a C++ library steps. `info["episode"]` must report episodes as a Monitor does.

    Args:
        n_envs: Number of copies.
        observation_space: Space of one environment's observations.
        action_space: Space of one environment's actions.
        sparse: Probability with which a step's reward is set to zero; None for never.
    """

    _render_mode: str | None = None

    def __init__(
        self,
        n_envs: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        sparse: float | None,
    ) -> None:
        super().__init__(n_envs, observation_space, action_space)
        self._sparse = sparse
        self._generator = sparse_generator(None)
        self._was_reset = False

    @property
    @abstractmethod
    def _native(self) -> Any:
        """The library's object, whose attributes all environments share. SB3's constructor reads it."""

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute that all environments share."""
        value = self._render_mode if attr_name == "render_mode" else getattr(self._native, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Raise NotImplementedError: the environments are C++ objects."""
        raise NotImplementedError(f"{attr_name!r} cannot be set: the environments are C++ objects")

    def env_method(self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **_: Any) -> list[Any]:
        """Raise NotImplementedError: the environments are C++ objects."""
        raise NotImplementedError(f"{method_name!r} cannot be called: the environments are C++ objects")

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Report a Monitor, because `info["episode"]` has the same content."""
        return [issubclass(Monitor, wrapper_class) for _ in self._get_indices(indices)]

    def _seeds_of_reset(self) -> list[int] | None:
        """Return the seeds of the environments for a reset; None if their generators continue."""
        if not self._was_reset and self._seeds[0] is None:
            self.seed()
        seeds = None if self._seeds[0] is None else [int(seed) for seed in self._seeds if seed is not None]
        if seeds is not None:
            self._generator = sparse_generator(seeds[0])
        self._was_reset = True
        self._reset_seeds()
        self._reset_options()
        return seeds

    def _with_sparsity(self, rewards: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the rewards, some of them set to zero if `sparse` is given."""
        if self._sparse is None:
            return rewards
        hidden = self._generator.random(len(rewards)) < self._sparse
        return np.where(hidden, np.float32(0), rewards)
