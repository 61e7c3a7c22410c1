"""Numbers about a computation that stay on the device until all are read together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

if TYPE_CHECKING:
    from revd.rollout import Rollout

Number: TypeAlias = "Tensor | float"


@dataclass(frozen=True, eq=False)
class Mean:
    """A mean as sum and count; undefined if the count is 0. Means of several batches can be added.

    Attributes:
        total: The sum of the numbers.
        count: How many numbers there are.
    """

    total: Number
    count: Number

    def __add__(self, other: Mean) -> Mean:
        """The mean over the numbers of both."""
        return Mean(self.total + other.total, self.count + other.count)


def total(values: Tensor) -> Tensor:
    """The sum, or the number of True, in float64, so that sums of any type can be read together."""
    return values.sum(dtype=torch.float64)


def mean_of_steps(values: Tensor, rollout: Rollout) -> Mean:
    """The mean over the valid steps of a rollout, of values (n_steps, n_envs)."""
    return Mean(total(torch.where(rollout.valid_on(values.device), values, 0.0)), rollout.n_valid)


def as_mean(name: str, value: Number | Mean) -> Mean:
    """Copy a number, so that later changes to its tensor have no effect."""
    if isinstance(value, Mean):
        return value
    if not isinstance(value, Tensor):
        return Mean(float(value), 1)
    if value.numel() != 1:
        raise ValueError(f"{name} must be one number to be recorded, got a tensor of shape {tuple(value.shape)}")
    value = value.detach()
    return Mean(float(value) if value.device.type == "cpu" else value.clone(), 1)


def read_means(means: Mapping[str, Mean]) -> dict[str, float]:
    """Read the defined means as floats, by one transfer from the device."""
    parts = _to_floats([part for mean in means.values() for part in (mean.total, mean.count)])
    sums = zip(means, parts[::2], parts[1::2], strict=True)
    return {name: added / count for name, added, count in sums if count != 0}


def _to_floats(numbers: list[Number]) -> list[float]:
    tensors = [number for number in numbers if isinstance(number, Tensor)]
    if not tensors:
        return [float(number) for number in numbers]
    # Only numbers that a user records may be on another device.
    together = [tensor.to(tensors[-1].device, torch.float64).reshape(()) for tensor in tensors]
    values = iter(torch.stack(together).tolist())
    return [next(values) if isinstance(number, Tensor) else float(number) for number in numbers]
