"""From Stable-Baselines3's rollout buffer to a `Rollout`: what the buffer forgets is recorded step by step."""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from revd.arrays import Array
from revd.rollout import Observations, Rollout, is_finite

if TYPE_CHECKING:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

ObservationArray: TypeAlias = "Array | dict[str, Array]"


class RolloutRecorder:
    """Keeps the rewards before SB3 adds its time-out bootstrap, the ends of episodes, and what these ended with."""

    def __init__(self) -> None:
        self._warned = False
        self.start()

    def start(self, *, successors: bool = True) -> None:
        """A rollout begins; without `successors`, nobody will look at next observations, and none are kept."""
        self._successors_wanted = successors
        self._rewards: list[Array] = []
        self._original: list[Array] = []
        self._dones: list[Array] = []
        self._terminal: list[tuple[int, int, ObservationArray]] = []

    def step(self, rewards: Array, dones: Array, infos: list[dict[str, Any]], original: Array) -> None:
        """Record one step of all environments, as the callback sees it; `original` are rewards before VecNormalize."""
        step = len(self._rewards)
        # SB3 adds gamma * V(terminal) to this very array right after on_step.
        self._rewards.append(np.array(rewards, dtype=np.float32))
        self._original.append(np.array(original, dtype=np.float32))
        self._dones.append(np.array(dones, dtype=bool))
        for env in np.flatnonzero(dones) if self._successors_wanted else ():
            terminal = infos[env].get("terminal_observation")
            if terminal is not None:
                # Some vectorised environments write the next one into the same memory.
                self._terminal.append((step, int(env), deepcopy(terminal)))
            elif not self._warned:
                self._warned = True
                warnings.warn(
                    "the vectorised environment gives no infos[i]['terminal_observation'] at the end of an episode; "
                    "the observation after the reset stands in for it",
                    stacklevel=2,
                )

    @property
    def n_steps(self) -> int:
        """Steps recorded since `start`."""
        return len(self._rewards)

    @property
    def original_rewards(self) -> Array:
        """The task's rewards before VecNormalize, (n_steps, n_envs)."""
        return np.array(self._original)

    @property
    def rewards(self) -> Array:
        """The environment's rewards without bootstrap, (n_steps, n_envs)."""
        return np.array(self._rewards)

    def rollout(self, model: OnPolicyAlgorithm) -> Rollout:
        """What the model has just collected, where its buffer has it: arrays are not copied, frames stay on a GPU.

        Raises:
            ValueError: What the environments show now is not finite, and so advantages would not be.
        """
        buffer = model.rollout_buffer
        observations = _shaped(buffer.observations, model.observation_space)
        last = model._last_obs
        assert last is not None
        self._check_last(last)
        return Rollout(
            observations=observations,
            actions=_executed(torch.as_tensor(buffer.actions), model.action_space),
            next_observations=self._successors(observations, last) if self._successors_wanted else None,
            dones=np.array(self._dones),
        )

    def _check_last(self, shown: Any) -> None:
        parts = shown if isinstance(shown, dict) else {None: shown}
        for key, part in parts.items():
            bad = [] if is_finite(part) else [env for env, row in enumerate(part) if not is_finite(row)]
            if bad:
                name = "the observation" if key is None else f"the observation[{key!r}]"
                raise ValueError(
                    f"{name} after step {self.n_steps - 1} of environment {bad[0]} holds a NaN or infinite value"
                )

    def _successors(self, observations: Observations, last: Any, key: str | None = None) -> Observations:
        """Each step's next observation: the next row, or the terminal observation where an episode ended."""
        if isinstance(observations, dict):
            return {name: self._successors(part, last[name], name) for name, part in observations.items()}  # type: ignore[misc]
        successors = torch.empty_like(observations)
        successors[:-1] = observations[1:]
        _put(successors[-1], last)
        if self._terminal:
            self._put_terminal(successors, key)
        return successors

    def _put_terminal(self, successors: Tensor, key: str | None) -> None:
        """Write all terminal observations in one copy: each copy to a GPU would wait for it."""
        steps, envs, terminals = zip(*self._terminal, strict=True)
        shape = successors.shape[2:]
        parts = [np.asarray(terminal if key is None else terminal[key]).reshape(shape) for terminal in terminals]
        arrived = torch.from_numpy(np.stack(parts)).to(successors.device, successors.dtype)
        rows, columns = torch.tensor([steps, envs], device="cpu").to(successors.device, non_blocking=True)
        successors[rows, columns] = arrived


def _executed(actions: Tensor, space: spaces.Space[Any]) -> Tensor:
    """The actions in the space's own shape, and inside its bounds, as SB3 hands them to the environment."""
    shaped = actions.reshape(*actions.shape[:2], *(space.shape or ()))
    if not isinstance(space, spaces.Box):
        return shaped
    low, high = (torch.as_tensor(bound).to(shaped.device) for bound in (space.low, space.high))
    return shaped.clamp(low, high)


def _shaped(observations: Any, space: Any) -> Observations:
    """The buffer's observations in the space's own shape; the buffer gives discrete ones a trailing dimension."""
    if isinstance(observations, dict):
        return {key: _shaped(part, space[key]) for key, part in observations.items()}  # type: ignore[misc]
    tensor = torch.as_tensor(observations)
    return tensor.reshape(*tensor.shape[:2], *space.shape)


def _put(target: Tensor, value: Any) -> None:
    """Write one observation of an environment, which may be any kind of array, or a number."""
    target.copy_(torch.from_numpy(np.array(value, order="C")).reshape(target.shape))
