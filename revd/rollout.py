"""The time-major batch of experience that every reward reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from revd.observations import (
    WIDER,
    ArrayLike,
    Observations,
    as_observations,
    as_tensor,
    is_finite,
    map_observations,
    named_tensors,
)
from revd.spaces import dict_parts, discrete_bounds
from revd.states import Field, States

if TYPE_CHECKING:
    from revd.spaces import Space

__all__ = ["WIDER", "ArrayLike", "Observations", "Rollout", "as_observations", "is_finite", "map_observations"]

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
        dones = as_tensor("dones", dones)
        if dones.ndim != 2 or dones.numel() == 0:
            raise ValueError(f"dones must have shape (n_steps, n_envs), neither 0, got {tuple(dones.shape)}")
        successors = None
        if next_observations is not None:
            successors = as_observations("next_observations", next_observations)
        fields = {
            "observations": as_observations("observations", observations),
            "actions": as_tensor("actions", actions),
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

    @cached_property
    def states(self) -> States:
        """The states of the valid steps' transitions. Found once: a rollout's tensors must not change afterwards."""
        successors = None if self.next_observations is None else self.steps(self.next_observations)
        return States(self.steps(self.observations), successors)

    def evaluate(self, network: Callable[[Observations], Tensor], *fields: Field) -> list[Tensor]:
        """What a network says of the observations, the successors or both, (n_steps, n_envs, …); 0 in padded steps.

        Repeated states are evaluated once, so its answer for one must not depend on the others.
        """
        return [self.unflatten(values) for values in self.states.evaluate(network, *fields)]

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
            for label, tensor in named_tensors(name, getattr(self, name)):
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
            narrow = values.to(torch.float32)
            # A sum of finite numbers is finite unless it overflows, and takes one pass without memory of its own.
            if not narrow.sum().isfinite():
                self._check_steps(name, narrow.isfinite(), "a NaN or infinite value")
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


def _lengths(values: ArrayLike) -> Tensor:
    lengths = as_tensor("lengths", values)
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths must be integers, got {lengths.dtype}")
    return lengths.long().cpu()
