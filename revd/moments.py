"""Running mean and variance, kept in buffers."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningMoments(nn.Module):
    """Mean and standard deviation of all values so far, in float64."""

    mean: Tensor
    square_sum: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("square_sum", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def update(self, values: Tensor) -> None:
        """Add (n, *shape), in Chan's parallel form of Welford's update."""
        added = len(values)
        if added == 0:
            return
        values = values.double()
        total = self.count + added
        mean = values.mean(dim=0)
        shift = mean - self.mean
        self.square_sum += (values - mean).square_().sum(dim=0) + shift.square() * self.count * added / total
        self.mean += shift * added / total
        self.count += added

    @property
    def std(self) -> Tensor:
        """Standard deviation, (*shape); 0 before the first value."""
        return (self.square_sum / self.count.clamp(min=1)).sqrt()
