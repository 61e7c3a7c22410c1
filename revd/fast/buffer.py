"""A rollout buffer on the policy's device; observations keep their own dtype."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch import Tensor

from revd.arrays import Array
from revd.functional.advantages import generalized_advantages
from revd.rollout import WIDER, Observations, map_observations


class RolloutTensors(NamedTuple):
    """The tensors on the device, (n_steps, n_envs, …) each; Dict observations have one tensor per key."""

    observations: Observations
    actions: Tensor
    values: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor


class _StoredField:
    """A field of `RolloutTensors` as an attribute of the buffer, like SB3's.

    On a CPU it is an array that shares the tensor's memory, on a GPU the tensor itself. Assigned values are copied into
    the tensor, because CUDA graphs have captured its address.
    """

    def __set_name__(self, owner: type[DeviceRolloutBuffer], name: str) -> None:
        self._name = name

    def __get__(self, buffer: DeviceRolloutBuffer, owner: type[DeviceRolloutBuffer]) -> Any:
        field = getattr(buffer.stored, self._name)
        if buffer.device.type != "cpu":
            return field
        if isinstance(field, dict):
            return _SharedArrays((key, tensor.numpy()) for key, tensor in field.items())
        return field.numpy()

    def __set__(self, buffer: DeviceRolloutBuffer, values: Any) -> None:
        field = getattr(buffer.stored, self._name)
        pairs = [(field[key], values[key]) for key in field] if isinstance(field, dict) else [(field, values)]
        for tensor, value in pairs:
            tensor.copy_(torch.as_tensor(value, device=tensor.device))


class _SharedArrays(dict[str, Array]):
    """Arrays by key that keep their memory: what is assigned to a key is copied into its array."""

    def __setitem__(self, key: str, values: Any) -> None:
        self[key][...] = values


class DeviceRolloutBuffer(RolloutBuffer):
    """SB3's rollout buffer with its memory on the device, allocated once.

    Observations (uint8 frames stay uint8), actions, values, log-probabilities, advantages and returns are tensors in
    `stored`. As attributes of the buffer they are those tensors on a GPU; on a CPU they are arrays that share their
    memory, as callbacks expect of SB3's buffer. Rewards and episode starts are arrays on the host, where callbacks
    change the rewards; `compute_returns_and_advantage` copies them to the device.

    Unlike SB3's, `get` leaves the fields time-major.

    Args:
        buffer_size: n_steps.
        observation_space: Any that SB3 supports, dictionaries included.
        action_space: Any that SB3 supports.
        device: The policy's device.
        gae_lambda: lambda of GAE.
        gamma: Discount factor.
        n_envs: Number of environments.
        channels_last: Store images (channels, height, width) with the channels innermost, which is faster for
            convolutions.
    """

    observations: Any = _StoredField()
    actions: Any = _StoredField()
    values: Any = _StoredField()
    log_probs: Any = _StoredField()
    advantages: Any = _StoredField()
    returns: Any = _StoredField()

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        gae_lambda: float = 1,
        gamma: float = 0.99,
        n_envs: int = 1,
        channels_last: bool = False,
    ) -> None:
        # Skips RolloutBuffer's constructor, which would allocate arrays.
        super(RolloutBuffer, self).__init__(buffer_size, observation_space, action_space, device, n_envs)
        self.gae_lambda = gae_lambda
        self.gamma = gamma
        self.stored = RolloutTensors(
            self._allocate(observation_space, self.obs_shape, channels_last),
            self._zeros((self.action_dim,), _storable(action_space)),
            *(self._zeros(()) for _ in range(4)),
        )
        self.rewards, self.episode_starts = (np.zeros((buffer_size, n_envs), np.float32) for _ in range(2))
        self._staged: Tensor | None = None
        self.reset()

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors on the device."""
        observations, *others = self.stored
        return [*(observations.values() if isinstance(observations, dict) else [observations]), *others]

    def reset(self) -> None:
        """Start a new rollout; the old one is overwritten step by step."""
        self.pos = 0
        self.full = False
        self._staged = None

    def stage_observations(self, observations: Observations) -> Observations:
        """Write the observations of the current step and return them, images in the buffer's memory layout."""
        current = map_observations(lambda tensor: tensor[self.pos], self.stored.observations)
        if isinstance(current, dict) and isinstance(observations, dict):
            return {key: _copy(row, observations[key]) for key, row in current.items()}
        assert isinstance(current, Tensor)
        assert isinstance(observations, Tensor)
        return _copy(current, observations)

    def stage_policy_output(self, actions: Tensor, values: Tensor, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Write the policy's output of the current step and return values and log-probabilities.

        The returned tensors are views of the buffer: `add` recognises them and writes only what is missing.
        """
        stored = self.stored
        for field, value in ((stored.actions, actions), (stored.values, values), (stored.log_probs, log_probs)):
            _copy(field[self.pos], value)
        self._staged = stored.values[self.pos].unsqueeze(1)
        return self._staged, stored.log_probs[self.pos]

    @property
    def is_staged(self) -> bool:
        """Whether the current step is written except for rewards and episode starts."""
        return self._staged is not None

    def add(
        self, obs: Any, action: Array, reward: Array, episode_start: Array, value: Tensor, log_prob: Tensor
    ) -> None:
        """Complete the current step; staged values are not written twice."""
        if value is not self._staged:
            stored = self.stored
            if isinstance(stored.observations, dict):
                for key, tensor in stored.observations.items():
                    self._write_current(tensor, obs[key])
            else:
                self._write_current(stored.observations, obs)
            for field, values in ((stored.actions, action), (stored.values, value), (stored.log_probs, log_prob)):
                self._write_current(field, values)
        self.complete_step(reward, episode_start)

    def _write_current(self, field: Tensor, values: Any) -> None:
        """Write one field of the current step; on a CPU with NumPy, which is faster for small arrays."""
        if field.device.type == "cpu":
            target = field.numpy()[self.pos]
            source = values.detach().numpy() if isinstance(values, Tensor) else np.asarray(values)
            target[...] = source.reshape(target.shape)
        else:
            _copy(field[self.pos], torch.as_tensor(values))

    def complete_step(self, rewards: Array, episode_starts: Array) -> None:
        """Write rewards and episode starts of the current step and move to the next."""
        self.rewards[self.pos] = rewards
        self.episode_starts[self.pos] = episode_starts
        self._staged = None
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def write_step(
        self, step: Tensor, envs: slice, observations: Tensor, policy_output: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        """Write a step of some environments: observations, actions, values and log-probabilities.

        The index of the step is a tensor (1,), so that one CUDA graph can write every step of a rollout.
        """
        stored_observations, *others = self.stored[:4]
        assert isinstance(stored_observations, Tensor)
        for field, values in zip((stored_observations, *others), (observations, *policy_output), strict=True):
            columns = field[:, envs]
            columns.index_copy_(0, step, values.reshape(1, *columns.shape[1:]).to(field.dtype))

    def compute_returns_and_advantage(self, last_values: Tensor, dones: Array) -> None:
        """Compute returns and GAE from the current rewards; on a CPU equal to SB3's to the last bit."""
        ends = np.concatenate([self.episode_starts[1:], np.asarray(dones, np.float32)[None]])
        if self.device.type == "cpu":
            # Overflow gives infinity without a NumPy warning, as in torch; the code that trains on it checks.
            with np.errstate(over="ignore", invalid="ignore"):
                self._compute_on_cpu(last_values.detach().numpy().flatten(), 1 - ends)
            return
        self._compute_on_gpu(last_values.detach().flatten(), ends)

    def _compute_on_gpu(self, last_values: Tensor, ends: Array) -> None:
        """Compute all steps at once with `functional.advantages`."""
        # One copy instead of two: each copy to the device blocks.
        rewards, dones = torch.as_tensor(np.stack([self.rewards, ends]), dtype=torch.float32, device=self.device)
        stored = self.stored
        advantages = generalized_advantages(
            rewards,
            stored.values,
            last_values.to(stored.values),
            dones,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
        )
        stored.advantages.copy_(advantages)
        torch.add(stored.advantages, stored.values, out=stored.returns)

    def _compute_on_cpu(self, last_values: Array, alive: Array) -> None:
        """Compute backwards, step by step: A_t = delta_t + gamma lambda alive_t A_{t+1}."""
        values, advantages = self.stored.values.numpy(), self.stored.advantages.numpy()
        next_values = np.concatenate([values[1:], last_values[None]])
        delta = self.rewards + self.gamma * next_values * alive - values
        carried = self.gamma * self.gae_lambda * alive
        last = np.zeros_like(last_values)
        for step in reversed(range(self.buffer_size)):
            last = delta[step] + carried[step] * last
            advantages[step] = last
        np.add(advantages, values, out=self.stored.returns.numpy())

    def permutation(self) -> Tensor:
        """Draw a random order of all steps; on a CPU the same that SB3 draws."""
        n = self.buffer_size * self.n_envs
        if self.device.type == "cpu":
            return torch.from_numpy(np.random.permutation(n))  # noqa: NPY002
        return torch.randperm(n, device=self.device)

    def minibatches(self, batch_size: int | None = None) -> Iterator[Tensor]:
        """Yield the steps of each minibatch: every step once, in random order, numbered as in `samples`."""
        assert self.full
        order = self.permutation()
        # SB3 numbers the steps environment by environment, we step by step.
        rows = order % self.buffer_size * self.n_envs + order // self.buffer_size
        yield from rows.split(batch_size or len(rows))

    def samples(self, rows: Tensor) -> RolloutBufferSamples:
        """Return the steps `rows`, numbered step * n_envs + environment."""
        _, actions, *numbers = self.stored
        return RolloutBufferSamples(
            self.observations_at(rows),  # type: ignore[arg-type]
            _select_rows(actions, rows).float(),
            *(_select_rows(tensor, rows) for tensor in numbers),
        )

    def observations_at(self, rows: Tensor) -> Observations:
        """Return only the observations of `samples`."""
        return map_observations(lambda tensor: _select_rows(tensor, rows), self.stored.observations)

    def get(self, batch_size: int | None = None) -> Generator[RolloutBufferSamples, None, None]:
        """Yield minibatches, like SB3's buffer."""
        for rows in self.minibatches(batch_size):
            yield self.samples(rows)

    def _allocate(self, space: spaces.Space[Any], shape: Any, channels_last: bool) -> Observations:
        if isinstance(space, spaces.Dict):
            return {key: self._allocate(part, shape[key], channels_last) for key, part in space.spaces.items()}  # type: ignore[misc]
        if channels_last and len(shape) == 3:
            return self._zeros((*shape[1:], shape[0]), _storable(space)).movedim(-1, 2)
        return self._zeros(shape, _storable(space))

    def _zeros(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros((self.buffer_size, self.n_envs, *shape), dtype=dtype, device=self.device)


def _storable(space: spaces.Space[Any]) -> torch.dtype:
    """Return the space's dtype, or the next wider one in which torch can compute."""
    dtype = torch.from_numpy(np.zeros(0, space.dtype)).dtype
    return WIDER.get(dtype, dtype)


def _copy(target: Tensor, source: Tensor) -> Tensor:
    """Copy values whose shape may differ: SB3's buffers have an extra dimension for discrete values.

    Returns the target if it has another memory layout, else the source: the last bit of a matrix product depends on the
    alignment of its input, which a view of the buffer does not keep.
    """
    target.copy_(source.reshape(target.shape))
    return source if target.is_contiguous() else target


def _select_rows(tensor: Tensor, rows: Tensor) -> Tensor:
    """Select rows of (n_steps, n_envs, …), numbered over both dimensions; the memory layout is kept."""
    flat = tensor.flatten(0, 1)
    if flat.is_contiguous():
        return flat.index_select(0, rows)
    # index_select keeps the layout, and is fast, only for contiguous rows.
    return flat.movedim(1, -1).index_select(0, rows).movedim(-1, 1)
