"""The global random generators of torch, NumPy and Python, from which policies and minibatches are drawn."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Generators:
    """Their states at one moment, as they give them: turning them into tensors takes longer than getting them."""

    torch: Tensor
    numpy: tuple[Any, ...]
    python: tuple[Any, ...]
    cuda: tuple[Tensor, ...]

    @classmethod
    def now(cls) -> Generators:
        """As they are."""
        return cls(
            torch=torch.get_rng_state(),
            numpy=tuple(np.random.get_state(legacy=True)),  # noqa: NPY002
            python=random.getstate(),
            cuda=tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_available() else (),
        )

    def tensors(self) -> dict[str, Tensor]:
        """All of it as tensors."""
        _, keys, position, has_gauss, cached = self.numpy
        version, state, gauss = self.python
        return {
            "torch": self.torch,
            "numpy_keys": torch.from_numpy(np.asarray(keys, dtype=np.int64)),
            "numpy_rest": torch.tensor([position, has_gauss, cached], dtype=torch.float64),
            "python": torch.tensor([version, *state], dtype=torch.int64),
            "python_gauss": torch.tensor([] if gauss is None else [gauss], dtype=torch.float64),
            **{f"cuda{index}": state for index, state in enumerate(self.cuda)},
        }


def load_generators(tensors: Mapping[str, Tensor]) -> None:
    """Let the generators go on from the states that `Generators.tensors` gave."""
    torch.set_rng_state(tensors["torch"])
    position, has_gauss, cached = tensors["numpy_rest"].tolist()
    keys = tensors["numpy_keys"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", keys, int(position), int(has_gauss), cached))  # noqa: NPY002
    version, *state = tensors["python"].tolist()
    gauss = tensors["python_gauss"].tolist()
    random.setstate((version, tuple(state), gauss[0] if gauss else None))
    if torch.cuda.is_available():
        # A checkpoint from a machine without a GPU, or with fewer, leaves the others as they are.
        for index in range(torch.cuda.device_count()):
            if f"cuda{index}" in tensors:
                torch.cuda.set_rng_state(tensors[f"cuda{index}"], index)
