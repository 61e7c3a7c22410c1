"""Buffers that the tiles of a search share."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class ReusedBuffers:
    """Named buffers that every tile of a search reuses: allocating memory costs more than the computation in it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.buffers: dict[tuple[str, torch.dtype], Tensor] = {}

    def take(self, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """An uninitialised tensor of that shape; the next one of the same name overwrites it."""
        size = math.prod(shape)
        key = (name, dtype)
        buffer = self.buffers.get(key)
        if buffer is None or buffer.numel() < size:
            buffer = self.buffers[key] = torch.empty(size, dtype=dtype, device=self.device)
        return buffer[:size].view(shape)
