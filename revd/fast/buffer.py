"""A rollout on the device on which the policy computes, in the observations' own types."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch import Tensor

from revd.functional.advantages import generalized_advantages
from revd.rollout import WIDER, Observations, map_observations

Array: TypeAlias = np.ndarray[Any, Any]


class Stored(NamedTuple):
    """What lies on the device, each (n_steps, n_envs, …); of Dict observations a tensor for each key."""

    observations: Observations
    actions: Tensor
    values: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor


class _Shown:
    """One of `Stored` as an attribute of the buffer: an array of the same memory on a CPU, as in SB3's buffer.

    On a GPU it is the tensor itself. What is assigned is copied there, since graphs have captured the addresses.
    """

    def __set_name__(self, owner: type[DeviceRolloutBuffer], name: str) -> None:
        self._name = name

    def __get__(self, buffer: DeviceRolloutBuffer, owner: type[DeviceRolloutBuffer]) -> Any:
        found = getattr(buffer.stored, self._name)
        if buffer.device.type != "cpu":
            return found
        return {key: part.numpy() for key, part in found.items()} if isinstance(found, dict) else found.numpy()

    def __set__(self, buffer: DeviceRolloutBuffer, given: Any) -> None:
        target = getattr(buffer.stored, self._name)
        parts = [(target[key], given[key]) for key in target] if isinstance(target, dict) else [(target, given)]
        for part, arriving in parts:
            part.copy_(torch.as_tensor(arriving, device=part.device))


class DeviceRolloutBuffer(RolloutBuffer):
    """SB3's rollout buffer with its memory on the device, allocated once.

    Observations (uint8 frames stay uint8), actions, values, log-probabilities, advantages and returns are tensors in
    `stored`. As attributes of the buffer they are those tensors on a GPU; on a CPU they are arrays that share their
    memory, so that callbacks find what SB3's buffer has. Rewards and starts of episodes are arrays on the host, where
    callbacks change the rewards; they travel with each `compute_returns_and_advantage`.

    Unlike SB3's, `get` leaves the fields time-major.

    Args:
        buffer_size: n_steps.
        observation_space: Any of SB3's, dictionaries included.
        action_space: Any of SB3's.
        device: Of the policy.
        gae_lambda: lambda of GAE.
        gamma: Discount.
        n_envs: Environments.
        channels_last: Store images (channels, height, width) with the channels innermost, as convolutions like them.
    """

    observations: Any = _Shown()
    actions: Any = _Shown()
    values: Any = _Shown()
    log_probs: Any = _Shown()
    advantages: Any = _Shown()
    returns: Any = _Shown()

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
        # Not RolloutBuffer's own, which would allocate arrays.
        super(RolloutBuffer, self).__init__(buffer_size, observation_space, action_space, device, n_envs)
        self.gae_lambda = gae_lambda
        self.gamma = gamma
        self.stored = Stored(
            self._allocate(observation_space, self.obs_shape, channels_last),
            self._zeros((self.action_dim,), _storable(action_space)),
            *(self._zeros(()) for _ in range(4)),
        )
        self.rewards, self.episode_starts = (np.zeros((buffer_size, n_envs), np.float32) for _ in range(2))
        self._staged: Tensor | None = None
        self.reset()

    @property
    def tensors(self) -> list[Tensor]:
        """Everything that lies on the device."""
        observations, *others = self.stored
        return [*(observations.values() if isinstance(observations, dict) else [observations]), *others]

    def reset(self) -> None:
        """A rollout begins; what lies in memory is overwritten step by step."""
        self.pos = 0
        self.full = False
        self._staged = None

    def stage_observations(self, observations: Observations) -> Observations:
        """Write what the policy is about to see at the current step, and return it: images in the buffer's layout."""
        rows = map_observations(lambda part: part[self.pos], self.stored.observations)
        if isinstance(rows, dict) and isinstance(observations, dict):
            return {key: _copy(row, observations[key]) for key, row in rows.items()}
        assert isinstance(rows, Tensor)
        assert isinstance(observations, Tensor)
        return _copy(rows, observations)

    def stage_answer(self, actions: Tensor, values: Tensor, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Write what the policy said to that, and return its values and log-probabilities.

        They are views of the buffer: `add` knows by them that only the rewards are missing.
        """
        stored = self.stored
        for field, arriving in ((stored.actions, actions), (stored.values, values), (stored.log_probs, log_probs)):
            _copy(field[self.pos], arriving)
        self._staged = stored.values[self.pos].unsqueeze(1)
        return self._staged, stored.log_probs[self.pos]

    @property
    def is_staged(self) -> bool:
        """Whether the current step has been written already, but for the rewards."""
        return self._staged is not None

    def add(
        self, obs: Any, action: Array, reward: Array, episode_start: Array, value: Tensor, log_prob: Tensor
    ) -> None:
        """Complete the current step; what the policy has staged is not written again."""
        if value is not self._staged:
            stored = self.stored
            if isinstance(stored.observations, dict):
                for key, part in stored.observations.items():
                    self._put(part, obs[key])
            else:
                self._put(stored.observations, obs)
            for field, arriving in ((stored.actions, action), (stored.values, value), (stored.log_probs, log_prob)):
                self._put(field, arriving)
        self.complete(reward, episode_start)

    def _put(self, field: Tensor, arriving: Any) -> None:
        """Write one field of the current step; in NumPy where that can be, which is quicker with small arrays."""
        if field.device.type == "cpu":
            array = field.numpy()[self.pos]
            given = arriving.detach().numpy() if isinstance(arriving, Tensor) else np.asarray(arriving)
            array[...] = given.reshape(array.shape)
        else:
            _copy(field[self.pos], torch.as_tensor(arriving))

    def complete(self, rewards: Array, episode_starts: Array) -> None:
        """What the host knows of the current step; the rest of it is written already."""
        self.rewards[self.pos] = rewards
        self.episode_starts[self.pos] = episode_starts
        self._staged = None
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def write(self, step: Tensor, envs: slice, observations: Tensor, answer: tuple[Tensor, Tensor, Tensor]) -> None:
        """What some environments showed at a step, and the policy's actions, values and log-probabilities.

        The number of the step is a tensor (1,), so that the same captured work writes every step of a rollout.
        """
        seen, *others = self.stored[:4]
        assert isinstance(seen, Tensor)
        for field, arriving in zip((seen, *others), (observations, *answer), strict=True):
            part = field[:, envs]
            part.index_copy_(0, step, arriving.reshape(1, *part.shape[1:]).to(field.dtype))

    def compute_returns_and_advantage(self, last_values: Tensor, dones: Array) -> None:
        """Returns and GAE on the device, from the rewards as they are now; on a CPU SB3's own to the last bit."""
        ends = np.concatenate([self.episode_starts[1:], np.asarray(dones, np.float32)[None]])
        if self.device.type == "cpu":
            # What is too large becomes infinite without a word, as in torch; whoever learns from it looks.
            with np.errstate(over="ignore", invalid="ignore"):
                self._add_up(last_values.detach().numpy().flatten(), 1 - ends)
            return
        self._find_on_device(last_values.detach().flatten(), ends)

    def _find_on_device(self, last_values: Tensor, ends: Array) -> None:
        """`functional.advantages`, which adds up all steps at once."""
        # Together, for each way to the device is waited for.
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

    def _add_up(self, last_values: Array, alive: Array) -> None:
        """Step by step backwards: A_t = delta_t + gamma lambda alive_t A_{t+1}."""
        values, advantages = self.stored.values.numpy(), self.stored.advantages.numpy()
        following = np.concatenate([values[1:], last_values[None]])
        delta = self.rewards + self.gamma * following * alive - values
        carried = self.gamma * self.gae_lambda * alive
        last = np.zeros_like(last_values)
        for step in reversed(range(self.buffer_size)):
            last = delta[step] + carried[step] * last
            advantages[step] = last
        np.add(advantages, values, out=self.stored.returns.numpy())

    def permutation(self) -> Tensor:
        """A random order of all steps; on the CPU the one that SB3 would draw."""
        n = self.buffer_size * self.n_envs
        if self.device.type == "cpu":
            return torch.from_numpy(np.random.permutation(n))  # noqa: NPY002
        return torch.randperm(n, device=self.device)

    def minibatches(self, batch_size: int | None = None) -> Iterator[Tensor]:
        """Every step once, in random order: the steps of each minibatch, as `samples` takes them."""
        assert self.full
        order = self.permutation()
        # SB3 counts environment by environment, we step by step.
        rows = order % self.buffer_size * self.n_envs + order // self.buffer_size
        yield from rows.split(batch_size or len(rows))

    def samples(self, rows: Tensor) -> RolloutBufferSamples:
        """Some steps by their numbers, counted step by step over all environments."""
        _, actions, *numbers = self.stored
        return RolloutBufferSamples(
            self.shown(rows),  # type: ignore[arg-type]
            _rows(actions, rows).float(),
            *(_rows(part, rows) for part in numbers),
        )

    def shown(self, rows: Tensor) -> Observations:
        """The observations of `samples`."""
        return map_observations(lambda part: _rows(part, rows), self.stored.observations)

    def get(self, batch_size: int | None = None) -> Generator[RolloutBufferSamples, None, None]:
        """Minibatches for a `train()` like SB3's own."""
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
    """The space's own type, or the next in which torch can compute."""
    dtype = torch.from_numpy(np.zeros(0, space.dtype)).dtype
    return WIDER.get(dtype, dtype)


def _copy(target: Tensor, arriving: Tensor) -> Tensor:
    """Write as many numbers, if not of the same shape: SB3's buffers have a dimension more for what is discrete.

    Returns what was written if its layout is another, else what arrived: memory of its own is aligned, on which the
    last bit of a matrix product depends.
    """
    target.copy_(arriving.reshape(target.shape))
    return arriving if target.is_contiguous() else target


def _rows(tensor: Tensor, rows: Tensor) -> Tensor:
    """`rows` of (n_steps, n_envs, …), counted over both; images with channels innermost keep them there."""
    flat = tensor.flatten(0, 1)
    if flat.is_contiguous():
        return flat.index_select(0, rows)
    # index_select copies whole rows, and keeps their order in memory, only where they are contiguous.
    return flat.movedim(1, -1).index_select(0, rows).movedim(-1, 1)
