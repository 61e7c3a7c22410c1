"""Errors of a training's environments, and checks of what one environment returns."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces


class TrainingFault(RuntimeError):  # noqa: N818 - a fault of the training's environments or settings, not of this library
    """A training cannot continue.

    Attributes:
        policy_lost: Whether the policy is unusable. If not, the state after the last update can be saved.
    """

    policy_lost = False


class EnvironmentFault(TrainingFault):
    """An environment raised, died, or returned values that no training can use."""


class BrokenEnvError(Exception):
    """A problem of one environment of a vector; `CheckedVecEnv` makes an EnvironmentFault of it.

    Attributes:
        index: The environment's place in the vector; None if it is unknown.
        problem: The problem in words.
    """

    def __init__(self, index: int | None, problem: str) -> None:
        super().__init__(index, problem)
        self.index = index
        self.problem = problem


class CheckedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Reports which environment of a vector raised or returned a wrong shape or reward.

    Vectors copy observations into their own arrays, where NumPy may broadcast a wrong shape. Wrap the bare environment
    with this, inside all wrappers that read its rewards.

    Args:
        env: The environment.
        index: Its place in the vector.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], index: int) -> None:
        super().__init__(env)
        self._index = index
        self._space = env.observation_space
        self._shape = None if isinstance(self._space, spaces.Dict) else self._space.shape

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, and check the observation's shape."""
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except (Exception, SystemExit) as error:
            raise BrokenEnvError(self._index, f"raised in reset(): {describe_error(error)}") from error
        self._check_shape(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and check the observation's shape and the reward."""
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except (Exception, SystemExit) as error:
            raise BrokenEnvError(self._index, f"raised in step(): {describe_error(error)}") from error
        self._check_shape(observation)
        # Most rewards are floats; NumPy's check of one takes longer than a step of many environments.
        problem = "" if isinstance(reward, float | int) else _reward_problem(reward)
        if problem:
            raise BrokenEnvError(self._index, problem)
        return observation, reward, terminated, truncated, info

    def _check_shape(self, observation: Any) -> None:
        if isinstance(observation, np.ndarray) and observation.shape == self._shape:
            return
        problem = _shape_problem(observation, self._space)
        if problem:
            raise BrokenEnvError(self._index, problem)


def describe_error(error: BaseException) -> str:
    """The type and the message of an error."""
    return f"{type(error).__name__}: {error}"


def is_finite_observation(observation: Any) -> bool:
    """Whether an observation or a batch of them holds neither NaN nor infinite numbers."""
    if isinstance(observation, dict):
        return all(map(is_finite_observation, observation.values()))
    array = np.asarray(observation)
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def describe_not_finite(observation: Any) -> str:
    """Describe the NaN and infinite numbers of an observation that has some."""
    if isinstance(observation, dict):
        bad_parts = {key: part for key, part in observation.items() if not is_finite_observation(part)}
        return " and ".join(f"{describe_not_finite(part)} under {key!r}" for key, part in bad_parts.items())
    array = np.asarray(observation)
    bad = array[~np.isfinite(array)]
    return f"{bad.size} of {array.size} numbers not finite ({bad.flat[0]})"


def _shape_problem(observation: Any, space: spaces.Space[Any]) -> str:
    """Describe what is wrong with an observation's shape; empty if nothing is."""
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, dict) or not space.spaces.keys() <= observation.keys():
            return f"gave an observation that is no dict with the keys {', '.join(space.spaces)}"
        return next(filter(None, (_shape_problem(observation[key], part) for key, part in space.spaces.items())), "")
    shape = np.shape(observation)
    return "" if shape == space.shape else f"gave an observation of shape {shape}, not {space.shape}"


def _reward_problem(reward: Any) -> str:
    """Describe what is wrong with a reward; empty if it is a real number."""
    array = np.asarray(reward)
    if array.shape:
        return f"gave a reward of shape {array.shape}, not a number"
    return "" if array.dtype.kind in "fiub" else f"gave the reward {reward!r}, not a real number"
