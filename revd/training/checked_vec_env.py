"""Checks of vectorised environments; errors name the environment, its seed and the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from revd.fast.env_groups import StepResults, as_grouped
from revd.training.env_checks import (
    BrokenEnvError,
    EnvironmentFault,
    describe_error,
    describe_not_finite,
    is_finite_observation,
)
from revd.training.timing import Stopwatch

if TYPE_CHECKING:
    from revd.arrays import Array


class CheckedVecEnv(VecEnvWrapper):
    """Raises an EnvironmentFault if a vectorised environment fails or returns unusable values.

    Checks for NaN and infinite numbers in rewards, observations and terminal observations (integers, such as images,
    are skipped), for wrong shapes, for errors raised in the environments, and for dead worker processes.

    Args:
        venv: The environments, to be seeded through this wrapper.
        task: Name of the task, for messages.

    Attributes:
        steps: Environment steps taken, summed over all environments; a resumed training sets it.
        stopwatch: Measures the time that the environments need to step.
    """

    def __init__(self, venv: VecEnv, task: str) -> None:
        super().__init__(venv)
        self.steps = 0
        self.stopwatch = Stopwatch()
        self._task = task
        self._first_seed: int | None = None
        self._broken = False
        self._shapes = _observation_shapes(venv.observation_space)
        self._grouped = as_grouped(venv)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed the environments and remember the first seed for messages."""
        seeds = self.venv.seed(seed)
        self._first_seed = seeds[0]
        return seeds

    def reset(self) -> VecEnvObs:
        """Reset all environments."""
        with self._faults_at(self.steps):
            observations = self.venv.reset()
            self._check_observations(observations, slice(0, self.num_envs))
        return observations

    def step_async(self, actions: Array) -> None:
        """Start a step; this may already find a dead worker process."""
        with self._faults_at(self.steps + self.num_envs), self.stopwatch:
            self.venv.step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Wait for the step of all environments and check it."""
        with self._faults_at(self.steps + self.num_envs):
            with self.stopwatch:
                received = self.venv.step_wait()
            observations, *results = received
            self._check_observations(observations, slice(0, self.num_envs))
            self._check_results(results, slice(0, self.num_envs))
        self.steps += self.num_envs
        return received

    @property
    def groups(self) -> Sequence[slice]:
        """The environments of each group; empty if they cannot be stepped by group."""
        return [] if self._grouped is None else self._grouped.groups

    def send(self, group: int, actions: Array) -> None:
        """Start a step of a group."""
        assert self._grouped is not None
        with self._faults_at(self.steps + self.num_envs), self.stopwatch:
            self._grouped.send(group, actions)

    def receive(self, group: int) -> Array:
        """Wait for a group's step and return its observations, checked."""
        assert self._grouped is not None
        with self._faults_at(self.steps + self.num_envs):
            with self.stopwatch:
                observations = self._grouped.receive(group)
            self._check_observations(observations, self._grouped.groups[group])
        return observations

    def step_results(self, group: int) -> StepResults:
        """Return rewards, dones and infos of a group's step, checked."""
        assert self._grouped is not None
        envs = self._grouped.groups[group]
        with self._faults_at(self.steps + self.num_envs):
            with self.stopwatch:
                results = self._grouped.step_results(group)
            self._check_results(results, envs)
        # Steps count all environments at once, when the last group has been received.
        self.steps += self.num_envs if envs.stop == self.num_envs else 0
        return results

    def close(self) -> None:
        """Close the environments; ignore further errors of a vector that has failed."""
        if not self._broken:
            self.venv.close()
            return
        # Otherwise a vector of processes would wait for the dead one to answer.
        for process in getattr(self.venv, "processes", ()):
            process.terminate()
        with suppress(Exception):
            self.venv.close()

    @contextmanager
    def _faults_at(self, steps: int) -> Iterator[None]:
        """Turn errors in the block into an EnvironmentFault that names the step."""
        try:
            yield
        except BrokenEnvError as broken:
            raise self._fault(broken.index, broken.problem, steps) from broken.__cause__
        except (EOFError, ConnectionError) as error:
            raise self._fault(*self._dead_worker(), steps) from error
        except (Exception, SystemExit) as error:
            raise self._fault(None, f"raised {describe_error(error)}", steps) from error

    def _dead_worker(self) -> tuple[int | None, str]:
        """Find the worker process that has ended; return its index and a description."""
        for index, process in enumerate(getattr(self.venv, "processes", ())):
            # A process that has just closed its pipe needs a moment to end.
            process.join(timeout=0.2)
            if not process.is_alive():
                return index, f"is gone: its process ended with exit code {process.exitcode} (its output is above)"
        return None, "closed a connection"

    def _fault(self, index: int | None, problem: str, steps: int) -> EnvironmentFault:
        self._broken = True
        which = "one of the environments" if index is None else f"environment {index}"
        first = self._first_seed
        if first is None:
            seeds = "seed unknown"
        elif index is None:
            seeds = f"seeds {first} … {first + self.num_envs - 1}"
        else:
            seeds = f"seed {first + index}"
        return EnvironmentFault(f"{which} of task {self._task!r} ({seeds}) at step {steps:,} {problem}")

    def _check_results(self, results: Any, envs: slice) -> None:
        """Check rewards and terminal observations of some environments."""
        rewards, dones, infos = results
        self._check_rewards(rewards, envs)
        for index in np.flatnonzero(dones):
            terminal = infos[index].get("terminal_observation")
            if terminal is not None and not is_finite_observation(terminal):
                raise BrokenEnvError(envs.start + int(index), f"ended an episode with {describe_not_finite(terminal)}")

    def _check_observations(self, observations: Any, envs: slice) -> None:
        n_envs = envs.stop - envs.start
        parts = observations if isinstance(observations, dict) else {None: observations}
        for key, part in parts.items():
            shape = (n_envs, *self._shapes[key])
            if part.shape != shape:
                raise BrokenEnvError(None, f"gave observations of shape {part.shape}, not {shape}")
        if is_finite_observation(observations):
            return
        for index in range(n_envs):
            observation = _observation_at(observations, index)
            if not is_finite_observation(observation):
                raise BrokenEnvError(envs.start + index, f"gave an observation with {describe_not_finite(observation)}")

    def _check_rewards(self, rewards: Array, envs: slice) -> None:
        shape = (envs.stop - envs.start,)
        if rewards.shape != shape:
            raise BrokenEnvError(None, f"gave rewards of shape {rewards.shape}, not {shape}")
        if not np.isfinite(rewards).all():
            index = int(np.flatnonzero(~np.isfinite(rewards))[0])
            raise BrokenEnvError(envs.start + index, f"gave the reward {rewards[index]}")


def find_checked_vec_env(env: VecEnv | None) -> CheckedVecEnv | None:
    """Return the CheckedVecEnv among the wrappers of an environment, None if there is none."""
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, CheckedVecEnv):
            return env
        env = env.venv
    return None


def _observation_shapes(space: spaces.Space[Any]) -> dict[str | None, tuple[int, ...]]:
    """Return the shapes of one environment's observations by key; the key is None without a Dict space."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {None: space}
    return {key: part.shape or () for key, part in parts.items()}


def _observation_at(observations: Any, index: int) -> Any:
    """Return one environment's observation out of a batch."""
    if isinstance(observations, dict):
        return {key: part[index] for key, part in observations.items()}
    return observations[index]
