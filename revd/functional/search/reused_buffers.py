"""Memory that is used again and again."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Workspace:
    """Buffers that all tiles of a search use in turn: fresh memory costs more than what is computed in it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.buffers: dict[tuple[str, torch.dtype], Tensor] = {}

    def take(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """A tensor of that shape with anything in it, which the next one of that name overwrites."""
        size = math.prod(shape)
        key = (name, dtype)
        buffer = self.buffers.get(key)
        if buffer is None or buffer.numel() < size:
            buffer = self.buffers[key] = torch.empty(size, dtype=dtype, device=self.device)
        return buffer[:size].view(shape)
