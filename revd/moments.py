"""Mean and variance of all values so far, or of recent rollouts, kept in buffers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

#: Weight of a rollout in `RecentMoments`, relative to the one after it.
MEMORY = 0.9


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

    def update(self, values: Tensor, counts: Tensor | None = None) -> None:
        """Add (n, *shape), each as often as `counts`, (n,), or once, in Chan's parallel form of Welford's update."""
        if len(values) == 0:
            return
        values = values.double()
        if counts is None:
            added, mean = len(values), values.mean(dim=0)
            squares = (values - mean).square_().sum(dim=0)
        else:
            added = int(counts.sum())
            weights = counts.to(values).reshape(-1, *[1] * (values.ndim - 1))
            mean = (values * weights).sum(dim=0) / added
            squares = (values - mean).square_().mul_(weights).sum(dim=0)
        total = self.count + added
        shift = mean - self.mean
        self.square_sum += squares + shift.square() * self.count * added / total
        self.mean += shift * added / total
        self.count += added

    @property
    def std(self) -> Tensor:
        """Standard deviation, (*shape); 0 before the first value."""
        return (self.square_sum / self.count.clamp(min=1)).sqrt()


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
