"""The time-major batch of experience that every reward reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from revd.spaces import dict_parts, discrete_bounds

if TYPE_CHECKING:
    from revd.spaces import Space

ArrayLike: TypeAlias = "np.ndarray[Any, Any] | Tensor"
Observations: TypeAlias = "Tensor | dict[str, Tensor]"

#: What to do when `next_observations` is missing.
HOW_TO_GIVE_SUCCESSORS = "pass them to Rollout or, if an adapter makes it, set uses_successors = True on your reward"


@dataclass(frozen=True, kw_only=True, eq=False)
class Rollout:
    """One rollout of `n_envs` environments stepped `n_steps` times. Arrays become tensors without a copy.

    Attributes:
        observations: Inputs of the policy, `(n_steps, n_envs, *obs_shape)`, or a dict of them.
        actions: `(n_steps, n_envs, *action_shape)`.
        next_observations: True successors, shaped as `observations`: the terminal observation at an episode's end,
            never the one after the reset. None for rewards that do not read them (`uses_successors`).
        dones: (n_steps, n_envs), the transition ended its episode (terminated or truncated).
        lengths: (n_envs,), on the host, valid steps per column for frameworks with ragged episodes; None if all are.
    """

    observations: Observations
    actions: Tensor
    next_observations: Observations | None = None
    dones: Tensor
    lengths: Tensor | None = None

    def __init__(
        self,
        *,
        observations: ArrayLike | Mapping[str, ArrayLike],
        actions: ArrayLike,
        next_observations: ArrayLike | Mapping[str, ArrayLike] | None = None,
        dones: ArrayLike,
        lengths: ArrayLike | None = None,
    ) -> None:
        dones = _tensor("dones", dones)
        if dones.ndim != 2 or dones.numel() == 0:
            raise ValueError(f"dones must have shape (n_steps, n_envs), neither 0, got {tuple(dones.shape)}")
        successors = None
        if next_observations is not None:
            successors = as_observations("next_observations", next_observations)
        fields = {
            "observations": as_observations("observations", observations),
            "actions": _tensor("actions", actions),
            "next_observations": successors,
            "dones": dones.bool(),
            "lengths": None if lengths is None else _lengths(lengths),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        self._check_time_major()

    @property
    def n_steps(self) -> int:
        """Rows: time steps."""
        return self.dones.shape[0]

    @property
    def n_envs(self) -> int:
        """Columns: environments."""
        return self.dones.shape[1]

    @property
    def successors(self) -> Observations:
        """`next_observations`, or an error if there are none.

        Raises:
            ValueError: The rollout has none.
        """
        if self.next_observations is None:
            raise ValueError(f"the rollout has no next_observations; {HOW_TO_GIVE_SUCCESSORS}")
        return self.next_observations

    @property
    def valid(self) -> Tensor:
        """(n_steps, n_envs) bool: the steps within `lengths`."""
        return self.valid_on(self.dones.device)

    def valid_on(self, device: torch.device) -> Tensor:
        """`valid` on a device, without a copy if `lengths` is None."""
        if self.lengths is None:
            return torch.ones(self.dones.shape, dtype=torch.bool, device=device)
        steps = torch.arange(self.n_steps, device="cpu")
        return (steps[:, None] < self.lengths[None, :]).to(device)

    @property
    def n_valid(self) -> int:
        """The number of steps within `lengths`."""
        return self.dones.numel() if self.lengths is None else int(self.lengths.sum())

    def steps(self, values: Observations) -> Observations:
        """The valid steps of one of the fields, (n, …), in order of time; a view if `lengths` is None."""
        if self.lengths is None:
            return map_observations(lambda tensor: tensor.flatten(0, 1), values)
        return map_observations(lambda tensor: tensor[self.valid.to(tensor.device)], values)

    def unflatten(self, values: Tensor) -> Tensor:
        """The inverse of `steps`, on the device of the values: (n, …) to (n_steps, n_envs, …), 0 in padded steps."""
        if self.lengths is None:
            return values.reshape(*self.dones.shape, *values.shape[1:])
        padded = values.new_zeros(*self.dones.shape, *values.shape[1:])
        padded[self.valid_on(values.device)] = values
        return padded

    def check_against(self, observation_space: Space, action_space: Space, n_envs: int) -> None:
        """Raise a ValueError unless shapes and the values of every valid step fit the spaces."""
        if self.n_envs != n_envs:
            raise ValueError(f"the rollout has {self.n_envs} environments, the reward was made for n_envs={n_envs}")
        self._check_values("observations", self.observations, observation_space)
        if self.next_observations is not None:
            self._check_values("next_observations", self.next_observations, observation_space)
        self._check_values("actions", self.actions, action_space)

    def _check_time_major(self) -> None:
        leading = (self.n_steps, self.n_envs)
        for name in ("observations", "actions", "next_observations"):
            for label, tensor in _named_tensors(name, getattr(self, name)):
                if tuple(tensor.shape[:2]) != leading:
                    raise ValueError(
                        f"{label} must start with (n_steps, n_envs) = {leading} as dones does, "
                        f"got shape {tuple(tensor.shape)}"
                    )
        if self.lengths is None:
            return
        if tuple(self.lengths.shape) != (self.n_envs,):
            raise ValueError(f"lengths must have shape ({self.n_envs},), got {tuple(self.lengths.shape)}")
        if int(self.lengths.min()) < 0 or int(self.lengths.max()) > self.n_steps:
            raise ValueError(f"lengths must lie in 0 … {self.n_steps}, got {self.lengths.tolist()}")

    def _check_values(self, name: str, values: Observations, space: Space) -> None:
        parts = dict_parts(space)
        if parts is not None:
            if not isinstance(values, dict) or set(values) != set(parts):
                got = sorted(values, key=str) if isinstance(values, dict) else "one tensor"
                raise ValueError(f"{name} must be a dict with the keys {sorted(parts)}, got {got}")
            for key, part in parts.items():
                self._check_values(f"{name}[{key!r}]", values[key], part)
            return
        if isinstance(values, dict):
            raise ValueError(f"{name} is a dict with the keys {sorted(values, key=str)}, but the space is {space}")
        if tuple(values.shape[2:]) != space.shape:
            expected = (self.n_steps, self.n_envs, *(space.shape or ()))
            raise ValueError(f"{name} must have shape {expected} for {space}, got {tuple(values.shape)}")
        if values.is_floating_point():
            # False for NaN too, in half as many passes as `isfinite`.
            self._check_steps(name, values.to(torch.float32).abs() < torch.inf, "a NaN or infinite value")
        bounds = discrete_bounds(space)
        if bounds is not None:
            self._check_steps(name, _whole_and_inside(values, *bounds), f"a value outside {space}")

    def _check_steps(self, name: str, good: Tensor, what: str) -> None:
        good = good.reshape(self.n_steps, self.n_envs, -1).all(dim=-1)
        if self.lengths is not None:
            good |= ~self.valid_on(good.device)
        if not good.all():
            bad = ~good
            step, env = bad.nonzero()[0].tolist()
            raise ValueError(
                f"{name} hold {what} at step {step} of environment {env} "
                f"({int(bad.sum())} of {bad.numel()} entries are affected)"
            )


def _whole_and_inside(values: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Whether each value is a whole number from low to high."""
    # Single numbers may stay on the host, since kernels take them as arguments.
    low, high = (bound.to(values.device) if bound.ndim else bound for bound in (low, high))
    # In 64 bits, since a bound that does not fit the type of the values would wrap around.
    wide = values.double() if values.is_floating_point() else values.long()
    inside = (wide >= low) & (wide <= high)
    return inside & (wide == wide.trunc()) if wide.is_floating_point() else inside


def map_observations(function: Callable[[Tensor], Tensor], observations: Observations) -> Observations:
    """Apply `function` to an observation tensor, or to every tensor of a dict of them."""
    if isinstance(observations, dict):
        return {key: map_observations(function, value) for key, value in observations.items()}  # type: ignore[misc]
    return function(observations)


def _named_tensors(name: str, values: Observations | None) -> Iterator[tuple[str, Tensor]]:
    if isinstance(values, dict):
        for key, value in values.items():
            yield from _named_tensors(f"{name}[{key!r}]", value)
    elif values is not None:
        yield name, values


def is_finite(observation: Any) -> bool:
    """Whether an observation, an array or a dict of them, is finite in float32."""
    if isinstance(observation, Mapping):
        return all(map(is_finite, observation.values()))
    values = np.asarray(observation)
    with np.errstate(over="ignore"):
        return values.dtype.kind != "f" or bool(np.isfinite(values.astype(np.float32, copy=False)).all())


def as_observations(name: str, values: ArrayLike | Mapping[str, ArrayLike]) -> Observations:
    """Tensors over the memory of observations, an array or a dict of them; errors call them `name`."""
    if isinstance(values, Mapping):
        return {key: as_observations(f"{name}[{key!r}]", value) for key, value in values.items()}  # type: ignore[misc]
    return _tensor(name, values)


def _lengths(values: ArrayLike) -> Tensor:
    lengths = _tensor("lengths", values)
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths must be integers, got {lengths.dtype}")
    return lengths.long().cpu()


#: Types that torch can store but hardly compute with, and their replacements.
WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}


def _tensor(name: str, values: ArrayLike) -> Tensor:
    """Make a tensor over the same memory, or a copy if torch cannot share it (read-only, reversed, …).

    Raises:
        TypeError: It is not an array of real numbers.
    """
    if isinstance(values, np.ndarray):
        values = _as_shareable(values)
    try:
        tensor = torch.as_tensor(values).detach()
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"{name} must be an array or a tensor of numbers, got {_type_name(values)}: {error}") from error
    if tensor.is_complex() or tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError(f"{name} must be a dense array or tensor of real numbers, got {_type_name(values)}")
    return tensor.to(WIDER.get(tensor.dtype, tensor.dtype))


def _as_shareable(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if not values.dtype.isnative:
        return values.astype(values.dtype.newbyteorder("="))
    return values.copy() if not values.flags.writeable or min(values.strides, default=0) < 0 else values


def _type_name(values: object) -> str:
    dtype = getattr(values, "dtype", None)
    return type(values).__name__ if dtype is None else f"{type(values).__name__} of {dtype}"
