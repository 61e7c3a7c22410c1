"""Observations as tensors: one, or a dict of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

ArrayLike: TypeAlias = "np.ndarray[Any, Any] | Tensor"
Observations: TypeAlias = "Tensor | dict[str, Tensor]"

#: Types that torch can store but hardly compute with, and their replacements.
WIDER = {torch.uint16: torch.int32, torch.uint32: torch.int64, torch.uint64: torch.int64}


def map_observations(function: Callable[[Tensor], Tensor], observations: Observations) -> Observations:
    """Apply `function` to an observation tensor, or to every tensor of a dict of them."""
    if isinstance(observations, dict):
        return {key: map_observations(function, value) for key, value in observations.items()}  # type: ignore[misc]
    return function(observations)


def select(observations: Observations, rows: Tensor) -> Observations:
    """Rows of observations, (n, *obs_shape), on any device; the host does not wait for the copy of the index."""
    return map_observations(lambda values: values[rows.to(values.device, non_blocking=True)], observations)


def named_tensors(name: str, values: Observations | None) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of observations, with a name for errors such as `name['key']`."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield from named_tensors(f"{name}[{key!r}]", value)
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
    return as_tensor(name, values)


def as_tensor(name: str, values: ArrayLike) -> Tensor:
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
