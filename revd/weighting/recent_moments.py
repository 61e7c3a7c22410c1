"""Mean and deviation over the most recent rollouts, in buffers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

#: Weight of a rollout relative to the one after it.
MEMORY = 0.9


class RecentMoments(nn.Module):
    """Mean and deviation of the values of recent rollouts, in float64.

    Each rollout counts `MEMORY` times as much as the next one, however many values it has.
    """

    total: Tensor
    mean_sum: Tensor
    square_sum: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("total", "mean_sum", "square_sum"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    def update(self, values: Tensor) -> None:
        """Add the values of one rollout, at least one, any shape."""
        values = values.double()
        for buffer, value in (
            (self.total, torch.ones_like(self.total)),
            (self.mean_sum, values.mean()),
            (self.square_sum, values.square().mean()),
        ):
            buffer.mul_(MEMORY).add_(value)

    @property
    def mean(self) -> Tensor:
        """The mean, (); 0 before the first rollout."""
        return self.mean_sum / self.total.clamp(min=1)

    @property
    def deviation(self) -> Tensor:
        """The standard deviation, (); exactly 0 where the values vary by rounding only."""
        square = self.square_sum / self.total.clamp(min=1)
        variance = square - self.mean.square()
        return torch.where(variance > 1e-12 * square, variance, 0.0).sqrt()
