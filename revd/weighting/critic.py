"""The bonus's own critic: a small network that predicts the bonus still to come."""

from __future__ import annotations

import math
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from revd.functional.perceptron import Layer, run, run_back
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
        return run(self._weights(), inputs.reshape(-1, inputs.shape[-1]))[-1].view(inputs.shape[:-1])

    @torch.no_grad()
    def fit(self, inputs: Tensor, targets: Tensor) -> None:
        """Regress V on targets, (n,), of scaled embeddings, (n, d), by one pass of Adam.

        ::

            loss = 1/n sum_i (V(e_i) - y_i)^2,      d loss / d V(e_i) = 2/n (V(e_i) - y_i)

        One pass did no worse than four on the whole, at a quarter of the cost (docs/balance.md).
        """
        weights = self._weights()
        gradients = [Layer(*map(torch.empty_like, layer)) for layer in weights]
        parameters, their_gradients = list(chain(*weights)), list(chain(*gradients))
        for rows in self._minibatches(len(inputs), inputs.device):
            passed = run(weights, inputs.index_select(0, rows))
            errors = passed[-1] - targets[rows, None]
            run_back(weights, gradients, passed, errors * (2 / len(rows)))
            self.adam.step(parameters, their_gradients, LEARNING_RATE)
        self.fits += 1

    def _weights(self) -> list[Layer]:
        parameters = list(self.layers.parameters())
        return [Layer(*pair) for pair in zip(parameters[::2], parameters[1::2], strict=True)]

    def _minibatches(self, size: int, device: torch.device) -> Iterator[Tensor]:
        """Rows in an order that depends only on the seed and the number of fits, so that a resumed run repeats it."""
        generator = torch.Generator().manual_seed(self.seed + int(self.fits))
        order = torch.randperm(size, generator=generator, device="cpu").to(device, non_blocking=True)
        yield from order.split(BATCH_SIZE)
