"""Environments that misbehave: what they give is checked, and the error says which of them, when, and how seeded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from revd.fast.env_groups import Outcome, find_groups
from revd.training.timing import Stopwatch

if TYPE_CHECKING:
    from revd.arrays import Array


class TrainingFault(RuntimeError):  # noqa: N818 - what happened is the training's fault, not an error of ours
    """
    A training cannot go on.

    Attributes:
        spoilt: Whether the policy is lost; if not, the state after the last update can be saved.
    """

    spoilt = False


class EnvironmentFault(TrainingFault):
    """An environment raised, died, or gave what no training can use."""


class _Broken(Exception):  # noqa: N818 - never leaves this module
    """One environment of a vector is broken, perhaps unknown which; what is not known inside it is added outside."""

    def __init__(self, index: int | None, problem: str) -> None:
        super().__init__(index, problem)
        self.index = index
        self.problem = problem


class CheckedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """
    Says that it was this environment of the vector which raised, or gave something of a wrong shape.

    Vectors copy observations into arrays of their own, where a wrong shape may be stretched to fit. Goes around the
    bare environment, below what else reads its rewards.

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
        """Reset, and look at the observation's shape."""
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except (Exception, SystemExit) as error:
            raise _Broken(self._index, f"raised in reset(): {_in_words(error)}") from error
        self._check(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and look at the observation's shape and the reward."""
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
        except (Exception, SystemExit) as error:
            raise _Broken(self._index, f"raised in step(): {_in_words(error)}") from error
        self._check(observation)
        # Most rewards are floats; to ask NumPy about one takes longer than many an environment's step.
        problem = "" if isinstance(reward, float | int) else _wrong_reward(reward)
        if problem:
            raise _Broken(self._index, problem)
        return observation, reward, terminated, truncated, info

    def _check(self, observation: Any) -> None:
        if isinstance(observation, np.ndarray) and observation.shape == self._shape:
            return
        problem = _wrong_shape(observation, self._space)
        if problem:
            raise _Broken(self._index, problem)


class CheckedVecEnv(VecEnvWrapper):
    """
    Passes on what a vectorised environment gives, unless it is unusable: then an EnvironmentFault tells of it.

    Looks for NaN and infinite numbers in observations (not in those of whole numbers, such as images), the last ones
    of episodes and rewards; for wrong shapes; for errors raised in it; and for dead worker processes.

    Args:
        venv: The environments, seeded afterwards.
        task: What they play, for the message.

    Attributes:
        steps: Environment steps taken, all environments counted; a resumed training sets it.
        stopwatch: Measures the time in which the environments step.
    """

    def __init__(self, venv: VecEnv, task: str) -> None:
        super().__init__(venv)
        self.steps = 0
        self.stopwatch = Stopwatch()
        self._task = task
        self._first_seed: int | None = None
        self._faulty = False
        self._shapes = _shapes(venv.observation_space)
        self._grouped = find_groups(venv)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the environments, and remember it."""
        seeds = self.venv.seed(seed)
        self._first_seed = seeds[0]
        return seeds

    def reset(self) -> VecEnvObs:
        """Reset all environments."""
        with self._told(self.steps):
            observations = self.venv.reset()
            self._check_observations(observations, slice(0, self.num_envs))
        return observations

    def step_async(self, actions: Array) -> None:
        """Pass on the actions; a dead worker process may be noticed here already."""
        with self._told(self.steps + self.num_envs), self.stopwatch:
            self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Step all environments."""
        with self._told(self.steps + self.num_envs):
            with self.stopwatch:
                received = self.venv.step_wait()
            observations, *outcome = received
            self._check_observations(observations, slice(0, self.num_envs))
            self._check_outcome(outcome, slice(0, self.num_envs))
        self.steps += self.num_envs
        return received

    @property
    def groups(self) -> Sequence[slice]:
        """Those of the environments, if they can be stepped in groups."""
        return [] if self._grouped is None else self._grouped.groups

    def send(self, group: int, actions: Array) -> None:
        """Pass on the actions of a group."""
        assert self._grouped is not None
        with self._told(self.steps + self.num_envs), self.stopwatch:
            self._grouped.send(group, actions)

    def receive(self, group: int) -> Array:
        """Pass on what a group shows."""
        assert self._grouped is not None
        with self._told(self.steps + self.num_envs):
            with self.stopwatch:
                observations = self._grouped.receive(group)
            self._check_observations(observations, self._grouped.groups[group])
        return observations

    def outcome(self, group: int) -> Outcome:
        """Pass on what else came of a group's step."""
        assert self._grouped is not None
        envs = self._grouped.groups[group]
        with self._told(self.steps + self.num_envs):
            with self.stopwatch:
                outcome = self._grouped.outcome(group)
            self._check_outcome(outcome, envs)
        # A step is one of all environments, of which the last group is the last to answer.
        self.steps += self.num_envs if envs.stop == self.num_envs else 0
        return outcome

    def close(self) -> None:
        """Close the environments; those of a broken vector as far as they let themselves be closed."""
        if not self._faulty:
            self.venv.close()
            return
        # A vector of processes would wait for the answer of the dead one.
        for process in getattr(self.venv, "processes", ()):
            process.terminate()
        with suppress(Exception):
            self.venv.close()

    @contextmanager
    def _told(self, steps: int) -> Iterator[None]:
        """Turn what goes wrong into an EnvironmentFault."""
        try:
            yield
        except _Broken as broken:
            raise self._fault(broken.index, broken.problem, steps) from broken.__cause__
        except (EOFError, ConnectionError) as error:
            raise self._fault(*self._dead(), steps) from error
        except (Exception, SystemExit) as error:
            raise self._fault(None, f"raised {_in_words(error)}", steps) from error

    def _dead(self) -> tuple[int | None, str]:
        """Which worker process is gone."""
        for index, process in enumerate(getattr(self.venv, "processes", ())):
            # What has just closed its pipe ends in a moment.
            process.join(timeout=0.2)
            if not process.is_alive():
                return index, f"is gone: its process ended with exit code {process.exitcode} (what it said is above)"
        return None, "closed a connection"

    def _fault(self, index: int | None, problem: str, steps: int) -> EnvironmentFault:
        self._faulty = True
        which = "one of the environments" if index is None else f"environment {index}"
        first = self._first_seed
        if first is None:
            seeds = "seed unknown"
        elif index is None:
            seeds = f"seeds {first} … {first + self.num_envs - 1}"
        else:
            seeds = f"seed {first + index}"
        return EnvironmentFault(f"{which} of task {self._task!r} ({seeds}) at step {steps:,} {problem}")

    def _check_outcome(self, outcome: Any, envs: slice) -> None:
        """Look at what some environments gave besides their observations."""
        rewards, dones, infos = outcome
        self._check_rewards(rewards, envs)
        for index in np.flatnonzero(dones):
            last = infos[index].get("terminal_observation")
            if last is not None and not _is_finite(last):
                raise _Broken(envs.start + int(index), f"ended an episode with {_describe(last)}")

    def _check_observations(self, observations: Any, envs: slice) -> None:
        n_envs = envs.stop - envs.start
        parts = observations if isinstance(observations, dict) else {None: observations}
        for key, part in parts.items():
            shape = (n_envs, *self._shapes[key])
            if part.shape != shape:
                raise _Broken(None, f"gave observations of shape {part.shape}, not {shape}")
        if not _is_finite(observations):
            index = next(index for index in range(n_envs) if not _is_finite(_of(observations, index)))
            raise _Broken(envs.start + index, f"gave an observation with {_describe(_of(observations, index))}")

    def _check_rewards(self, rewards: Array, envs: slice) -> None:
        shape = (envs.stop - envs.start,)
        if rewards.shape != shape:
            raise _Broken(None, f"gave rewards of shape {rewards.shape}, not {shape}")
        if not np.isfinite(rewards).all():
            index = int(np.flatnonzero(~np.isfinite(rewards))[0])
            raise _Broken(envs.start + index, f"gave the reward {rewards[index]}")


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def find_checked(env: VecEnv | None) -> CheckedVecEnv | None:
    """The CheckedVecEnv among the wrappers of an environment."""
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, CheckedVecEnv):
            return env
        env = env.venv
    return None


def _shapes(space: spaces.Space[Any]) -> dict[str | None, tuple[int, ...]]:
    """Those of one environment's observations, by their keys."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {None: space}
    return {key: part.shape or () for key, part in parts.items()}


def _wrong_shape(observation: Any, space: spaces.Space[Any]) -> str:
    """What is wrong with it in words; empty if nothing is."""
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, dict) or not space.spaces.keys() <= observation.keys():
            return f"gave an observation that is no dict with the keys {', '.join(space.spaces)}"
        return next(filter(None, (_wrong_shape(observation[key], part) for key, part in space.spaces.items())), "")
    shape = np.shape(observation)
    return "" if shape == space.shape else f"gave an observation of shape {shape}, not {space.shape}"


def _wrong_reward(reward: Any) -> str:
    """What is wrong with it in words; empty if it is a real number."""
    array = np.asarray(reward)
    if array.shape:
        return f"gave a reward of shape {array.shape}, not a number"
    return "" if array.dtype.kind in "fiub" else f"gave the reward {reward!r}, not a real number"


def _is_finite(observation: Any) -> bool:
    if isinstance(observation, dict):
        return all(map(_is_finite, observation.values()))
    array = np.asarray(observation)
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _describe(observation: Any) -> str:
    """What is not finite in it."""
    if isinstance(observation, dict):
        return " and ".join(
            f"{_describe(part)} under {key!r}" for key, part in observation.items() if not _is_finite(part)
        )
    array = np.asarray(observation)
    bad = array[~np.isfinite(array)]
    return f"{bad.size} of {array.size} numbers not finite ({bad.flat[0]})"


def _of(observations: Any, index: int) -> Any:
    if isinstance(observations, dict):
        return {key: part[index] for key, part in observations.items()}
    return observations[index]
