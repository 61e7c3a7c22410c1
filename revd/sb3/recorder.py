"""Records what Stable-Baselines3's rollout buffer does not keep, and makes a `Rollout` of both."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from revd.arrays import Array
from revd.rollout import WIDER, Observations, Rollout, is_finite

if TYPE_CHECKING:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

ObservationArray: TypeAlias = "Array | dict[str, Array]"


class RolloutRecorder:
    """Records rewards without SB3's time-out bootstrap, dones and terminal observations."""

    def __init__(self) -> None:
        self._warned = False
        self.start()

    def start(self, *, successors: bool = True) -> None:
        """Start a new rollout; without `successors`, no terminal observations are kept."""
        self._keeps_successors = successors
        self._rewards: list[Array] = []
        self._original: list[Array] = []
        self._dones: list[Array] = []
        self._terminal: list[tuple[int, int, ObservationArray]] = []

    def step(self, rewards: Array, dones: Array, infos: list[dict[str, Any]], original: Array) -> None:
        """Record a step of all environments from the callback's `on_step`.

        Args:
            rewards: (n_envs,).
            dones: (n_envs,).
            infos: One per environment.
            original: The rewards before VecNormalize, (n_envs,).
        """
        step = len(self._rewards)
        # A copy, because SB3 adds gamma * V(terminal) to the same array right after on_step.
        self._rewards.append(np.array(rewards, dtype=np.float32))
        self._original.append(np.array(original, dtype=np.float32))
        self._dones.append(np.array(dones, dtype=bool))
        for env in np.flatnonzero(dones) if self._keeps_successors else ():
            terminal = infos[env].get("terminal_observation")
            if terminal is not None:
                # A copy, because some vectorised environments reuse the memory of observations.
                self._terminal.append((step, int(env), deepcopy(terminal)))
            elif not self._warned:
                self._warned = True
                warnings.warn(
                    "the vectorised environment sets no infos[i]['terminal_observation'] at the end of an episode; "
                    "the observation after the reset is used instead",
                    stacklevel=2,
                )

    @property
    def n_steps(self) -> int:
        """Number of steps recorded since `start`."""
        return len(self._rewards)

    @property
    def original_rewards(self) -> Array:
        """The task's rewards before VecNormalize, (n_steps, n_envs)."""
        return np.array(self._original)

    @property
    def rewards(self) -> Array:
        """The rewards without SB3's bootstrap, (n_steps, n_envs)."""
        return np.array(self._rewards)

    def rollout(self, model: OnPolicyAlgorithm) -> Rollout:
        """Return the rollout that the model has just collected.

        The buffer's arrays are not copied, and tensors stay on their device.

        Raises:
            ValueError: A current observation is not finite, so that the advantages would not be.
        """
        buffer = model.rollout_buffer
        observations = _shaped(buffer.observations, model.observation_space)
        last = model._last_obs
        assert last is not None
        self._check_last(last)
        return Rollout(
            observations=observations,
            actions=_executed(torch.as_tensor(buffer.actions), model),
            next_observations=self._successors(observations, last) if self._keeps_successors else None,
            dones=np.array(self._dones),
        )

    def last_observations(self, model: OnPolicyAlgorithm) -> Observations:
        """The environments' current observations in the space's shape, (n_envs, …), on the host."""
        return _rows_shaped(model._last_obs, model.observation_space)

    def _check_last(self, observations: Any) -> None:
        parts = observations if isinstance(observations, dict) else {None: observations}
        for key, part in parts.items():
            bad = [] if is_finite(part) else [env for env, row in enumerate(part) if not is_finite(row)]
            if bad:
                name = "the observation" if key is None else f"the observation[{key!r}]"
                raise ValueError(
                    f"{name} after step {self.n_steps - 1} of environment {bad[0]} holds a NaN or infinite value"
                )

    def _successors(self, observations: Observations, last: Any, key: str | None = None) -> Observations:
        """Return each step's next observation: the next row, or the terminal observation of an episode."""
        if isinstance(observations, dict):
            return {name: self._successors(part, last[name], name) for name, part in observations.items()}  # type: ignore[misc]
        successors = torch.empty_like(observations)
        successors[:-1] = observations[1:]
        _write(successors[-1], last)
        if self._terminal:
            self._write_terminal(successors, key)
        return successors

    def _write_terminal(self, successors: Tensor, key: str | None) -> None:
        """Write all terminal observations in one copy, because each copy to a GPU blocks."""
        steps, envs, terminals = zip(*self._terminal, strict=True)
        shape = successors.shape[2:]
        parts = [np.asarray(terminal if key is None else terminal[key]).reshape(shape) for terminal in terminals]
        stacked = torch.from_numpy(np.stack(parts)).to(successors.device, successors.dtype)
        rows, columns = torch.tensor([steps, envs], device="cpu").to(successors.device, non_blocking=True)
        successors[rows, columns] = stacked


def _executed(actions: Tensor, model: OnPolicyAlgorithm) -> Tensor:
    """Return actions in the space's shape, unsquashed or clipped as SB3 passes them to the environment."""
    space = model.action_space
    shaped = actions.reshape(*actions.shape[:2], *(space.shape or ()))
    if not isinstance(space, spaces.Box):
        return shaped
    low, high = (torch.as_tensor(bound).to(shaped.device) for bound in (space.low, space.high))
    if model.policy.squash_output:
        return low + 0.5 * (shaped + 1) * (high - low)
    return shaped.clamp(low, high)


def _shaped(observations: Any, space: Any) -> Observations:
    """Return the buffer's observations in the space's shape; SB3 adds a dimension to discrete ones."""
    if isinstance(observations, dict):
        return {key: _shaped(part, space[key]) for key, part in observations.items()}  # type: ignore[misc]
    tensor = torch.as_tensor(observations)
    return tensor.to(WIDER.get(tensor.dtype, tensor.dtype)).reshape(*tensor.shape[:2], *space.shape)


def _rows_shaped(observations: Any, space: Any) -> Observations:
    """Observations of all environments, (n_envs, …), in the space's shape."""
    if isinstance(observations, dict):
        return {key: _rows_shaped(part, space[key]) for key, part in observations.items()}  # type: ignore[misc]
    return torch.from_numpy(np.array(observations, order="C")).reshape(-1, *space.shape)


def _write(target: Tensor, value: Any) -> None:
    """Write observations of any array type into a tensor."""
    target.copy_(torch.from_numpy(np.array(value, order="C")).reshape(target.shape))
