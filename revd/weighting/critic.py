"""The bonus's own critic: a small network that predicts the bonus still to come."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init

from revd.moments import RunningMoments
from revd.rewards.optimizer import AdamState

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDDEN = 64
LEARNING_RATE = 1e-3
BATCH_SIZE = 512


class BonusCritic(nn.Module):
    """V(e), the discounted sum of the bonus after the state with embedding e.

    Two hidden layers of 64 units with tanh, on embeddings of mean 0 and deviation 1. It predicts 0 before the first
    `fit`.

    Args:
        embedding_size: d.
        seed: Seed of the weights and of the order of minibatches.
    """

    fits: Tensor

    def __init__(self, embedding_size: int, *, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        sizes = (embedding_size, HIDDEN, HIDDEN, 1)
        layers = [skip_init(nn.Linear, *pair) for pair in pairwise(sizes)]
        for layer, gain in zip(layers, (math.sqrt(2), math.sqrt(2), 0.0), strict=True):
            nn.init.orthogonal_(layer.weight, gain=gain, generator=generator)
            nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(layers)
        self.seed = seed
        self.moments = RunningMoments((embedding_size,))
        self.adam = AdamState(self.layers.parameters())
        self.register_buffer("fits", torch.zeros((), dtype=torch.int64))

    def observe(self, embeddings: Tensor) -> None:
        """Add embeddings, (n, d), to the statistics that scale the inputs."""
        self.moments.update(embeddings)

    def scaled(self, embeddings: Tensor) -> Tensor:
        """Embeddings with mean 0 and deviation 1; a number that has never varied becomes 0."""
        mean, std = self.moments.mean.float(), self.moments.std.float()
        return (embeddings - mean) * torch.where(std > 1e-6 * mean.abs(), 1 / std, 0.0)

    def forward(self, inputs: Tensor) -> Tensor:
        """V of scaled embeddings, (..., d) -> (...)."""
        first, second, last = self.layers
        values: Tensor = last(torch.tanh(second(torch.tanh(first(inputs)))))
        return values[..., 0]

    @torch.enable_grad()
    def fit(self, inputs: Tensor, targets: Tensor) -> None:
        """Regress V on targets, (n,), of scaled embeddings, (n, d), by one pass of Adam.

        One pass did no worse than four on the whole, at a quarter of the cost (docs/balance.md).
        """
        adam = self.adam.optimizer(self.layers.parameters(), LEARNING_RATE)
        for rows in self._minibatches(len(inputs), inputs.device):
            adam.zero_grad()
            functional.mse_loss(self(inputs[rows]), targets[rows]).backward()
            adam.step()
        self.fits += 1

    def _minibatches(self, size: int, device: torch.device) -> Iterator[Tensor]:
        """Rows in an order that depends only on the seed and the number of fits, so that a resumed run repeats it."""
        generator = torch.Generator().manual_seed(self.seed + int(self.fits))
        order = torch.randperm(size, generator=generator, device="cpu").to(device, non_blocking=True)
        yield from order.split(BATCH_SIZE)
