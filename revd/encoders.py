"""Random encoders: the paper's CNN for images, its MLP for everything else, one per key for Dict spaces.

An encoder's output depends on its seed, its weights and the observation, never on the batch it comes in: BatchNorm
stays in eval mode whatever the training loop does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from revd.moments import RunningMoments
from revd.spaces import check_space, dict_parts, feature_size, features, image_channel_axis, scale_pixels

if TYPE_CHECKING:
    from revd.rollout import Observations
    from revd.spaces import Space

#: Observations encoded at once, which bounds the memory of the convolutions.
CHUNK = 512
#: Batches are filled up to a multiple of this: matrix kernels treat the rows at a ragged edge differently, so that
#: equal observations would differ in their last bits.
ROWS = 8


class Encoder(nn.Module, ABC):
    """Maps observations (n, *obs_shape) to embeddings (n, embedding_size)."""

    embedding_size: int

    @abstractmethod
    def forward(self, observations: Observations) -> Tensor:
        """Embed a batch of observations."""

    @abstractmethod
    def warm_up(self, observations: Observations) -> None:
        """Add observations to the statistics of the normalisation, unless they are frozen already."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether the statistics are frozen, so that embeddings can be compared from now on."""

    def train(self, mode: bool = True) -> Encoder:
        """Stay in eval mode: BatchNorm must not depend on the batch."""
        return super().train(False)


def make_encoder(
    space: Space,
    *,
    embedding_size: int,
    seed: int = 0,
    normalize: bool = False,
    warmup: int = 1_000,
    trainable: bool = False,
) -> Encoder:
    """Build the encoder that fits `space`, its weights drawn from `seed` alone.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict of these.
        embedding_size: Size of the embedding; of each key's embedding for Dict spaces.
        seed: Seed of the weights; torch's global generator is not touched.
        normalize: Normalise observations to zero mean and unit variance before encoding them.
        warmup: Observations from which the statistics are taken before they are frozen.
        trainable: Leave the parameters trainable (RIDE's inverse model trains them); frozen otherwise.
    """
    if embedding_size < 1:
        raise ValueError(f"embedding_size must be at least 1, got {embedding_size}")
    check_space(space, "observation_space")
    generator = torch.Generator().manual_seed(seed)
    encoder = _build(space, embedding_size, generator, warmup if normalize else 0)
    encoder.eval().requires_grad_(trainable)
    return encoder


class SpaceEncoder(Encoder):
    """Encodes the elements of one space: features, optional normalisation, network."""

    def __init__(self, space: Space, embedding_size: int, generator: torch.Generator, warmup: int) -> None:
        super().__init__()
        self.space = space
        self.embedding_size = embedding_size
        self.channel_axis = image_channel_axis(space)
        if self.channel_axis is None:
            shape: tuple[int, ...] = (feature_size(space),)
            self.network = dense_network(shape[0], embedding_size, generator)
        else:
            shape = _channels_first(space, self.channel_axis)
            self.network = conv_network(shape, embedding_size, generator)
        self.normalizer = FrozenNormalizer(shape, warmup) if warmup > 0 else None

    @property
    def ready(self) -> bool:
        """Whether the normalisation's statistics are frozen (always, without normalisation)."""
        return self.normalizer is None or self.normalizer.ready

    def warm_up(self, observations: Observations) -> None:
        """Add observations to the statistics."""
        assert isinstance(observations, Tensor)
        if self.normalizer is not None and not self.normalizer.ready:
            for chunk in observations.split(CHUNK):
                self.normalizer.moments.update(self._features(chunk))

    def forward(self, observations: Observations) -> Tensor:
        """Embed (n, *shape), a chunk at a time."""
        return torch.cat(
            [self._embed(_filled(chunk))[: len(chunk)] for chunk in torch.as_tensor(observations).split(CHUNK)]
        )

    def _embed(self, observations: Tensor) -> Tensor:
        inputs = self._features(observations)
        if self.normalizer is not None:
            inputs = self.normalizer(inputs)
        embeddings: Tensor = self.network(inputs)
        return embeddings

    def _features(self, observations: Tensor) -> Tensor:
        observations = observations.to(next(self.network.parameters()).device)
        if self.channel_axis is None:
            return features(self.space, observations)
        if self.channel_axis == 2:
            observations = observations.permute(0, 3, 1, 2)
        return scale_pixels(self.space, observations)


class DictEncoder(Encoder):
    """Encodes each key of a Dict space and concatenates, in the space's own order."""

    def __init__(self, encoders: dict[str, Encoder]) -> None:
        super().__init__()
        self.keys = tuple(encoders)
        # A list, not a ModuleDict: module names may not hold dots, observation keys may.
        self.encoders = nn.ModuleList(encoders.values())
        self.embedding_size = sum(encoder.embedding_size for encoder in encoders.values())

    @property
    def ready(self) -> bool:
        """Whether every key's statistics are frozen."""
        return all(encoder.ready for _, encoder in self._named())

    def warm_up(self, observations: Observations) -> None:
        """Add observations to every key's statistics."""
        assert isinstance(observations, dict)
        for key, encoder in self._named():
            encoder.warm_up(observations[key])

    def forward(self, observations: Observations) -> Tensor:
        """Embed {key: (n, *shape)}."""
        assert isinstance(observations, dict)
        return torch.cat([encoder(observations[key]) for key, encoder in self._named()], dim=-1)

    def _named(self) -> list[tuple[str, Encoder]]:
        return list(zip(self.keys, self.encoders, strict=True))  # type: ignore[arg-type]


class FrozenNormalizer(nn.Module):
    """Zero mean, unit variance, with statistics of the first `warmup` observations or more, frozen from then on.

    Statistics that kept moving would shift all embeddings between two episodes, and be paid as novelty.
    """

    def __init__(self, shape: tuple[int, ...], warmup: int) -> None:
        super().__init__()
        self.warmup = warmup
        self.moments = RunningMoments(shape)

    @property
    def ready(self) -> bool:
        """Whether the warm-up is over."""
        return int(self.moments.count) >= self.warmup

    def forward(self, values: Tensor) -> Tensor:
        """Normalise; a feature that did not vary in the warm-up is only centred."""
        std = self.moments.std
        scale = torch.where(std > 1e-6, std, 1.0)
        return (values - self.moments.mean.to(values.dtype)) / scale.to(values.dtype)


def conv_network(shape: tuple[int, ...], embedding_size: int, generator: torch.Generator) -> nn.Sequential:
    """The paper's CNN (table "CNN-based"), strides 4, 2, 1, for images (channels, height, width)."""
    convolutions = nn.Sequential(
        skip_init(nn.Conv2d, shape[0], 32, kernel_size=8, stride=4),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        skip_init(nn.Conv2d, 32, 64, kernel_size=4, stride=2),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        skip_init(nn.Conv2d, 64, 32, kernel_size=3, stride=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Flatten(),
    )
    flat = 32 * math.prod(_conv_side(side) for side in shape[1:])
    head = [skip_init(nn.Linear, flat, 512), nn.ReLU(), skip_init(nn.Linear, 512, embedding_size)]
    return _orthogonal(nn.Sequential(*convolutions, *head), generator)


def dense_network(inputs: int, embedding_size: int, generator: torch.Generator) -> nn.Sequential:
    """The paper's MLP encoder (table "MLP-based")."""
    network = nn.Sequential(
        skip_init(nn.Linear, inputs, 64),
        nn.ReLU(),
        skip_init(nn.Linear, 64, 64),
        nn.ReLU(),
        skip_init(nn.Linear, 64, embedding_size),
    )
    return _orthogonal(network, generator)


def two_layer_network(inputs: int, outputs: int, generator: torch.Generator) -> nn.Sequential:
    """A dynamics model: Dense 256, ReLU, Dense outputs."""
    network = nn.Sequential(skip_init(nn.Linear, inputs, 256), nn.ReLU(), skip_init(nn.Linear, 256, outputs))
    return _orthogonal(network, generator)


def _build(space: Space, embedding_size: int, generator: torch.Generator, warmup: int) -> Encoder:
    parts = dict_parts(space)
    if parts is None:
        return SpaceEncoder(space, embedding_size, generator, warmup)
    return DictEncoder({key: _build(part, embedding_size, generator, warmup) for key, part in parts.items()})


def _filled(observations: Tensor) -> Tensor:
    """A batch of a multiple of `ROWS` observations, its first one repeated at the end."""
    missing = -len(observations) % ROWS
    return torch.cat([observations, observations[:1].expand(missing, *observations.shape[1:])])


def _orthogonal(network: nn.Sequential, generator: torch.Generator) -> nn.Sequential:
    for layer in network:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.orthogonal_(layer.weight, gain=math.sqrt(2), generator=generator)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return network


def _channels_first(space: Space, channel_axis: int) -> tuple[int, ...]:
    assert space.shape is not None
    return space.shape if channel_axis == 0 else (space.shape[2], *space.shape[:2])


def _conv_side(side: int) -> int:
    for kernel, stride in ((8, 4), (4, 2), (3, 1)):
        side = (side - kernel) // stride + 1
    return side
