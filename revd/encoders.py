"""Random encoders: the paper's CNN for images, its MLP for everything else, one per key for Dict spaces.

An encoder's output depends on its seed, its weights and the observation, never on the batch it comes in: BatchNorm
stays in eval mode whatever the training loop does. On the CPU this holds to the last bit; on a GPU equal observations
of one batch are equal, those of batches of different size to rounding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from revd.moments import RunningMoments
from revd.networks import Convolution, conv_network, convolve, dense_network, folded
from revd.spaces import check_space, dict_parts, feature_size, features, image_channel_axis, scale_pixels

if TYPE_CHECKING:
    from revd.rollout import Observations
    from revd.spaces import Space

#: Vectors encoded at once, on a CPU and on a GPU, where many small kernels cost more than a large one.
VECTORS = (512, 16_384)
#: Numbers in the largest tensor that a chunk of images needs, likewise. Blocks above 32 MiB glibc gives back at once,
#: and the page faults of the next ones would take nearly as long as the convolutions.
PIXELS = (2**22, 2**27)
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

    def __init__(self, space: Space, network: nn.Sequential, normalizer: FrozenNormalizer | None) -> None:
        super().__init__()
        self.space = space
        self.network = network
        self.normalizer = normalizer
        self.embedding_size = int(network[-1].out_features)  # type: ignore[arg-type]

    @property
    def ready(self) -> bool:
        """Whether the normalisation's statistics are frozen (always, without normalisation)."""
        return self.normalizer is None or self.normalizer.ready

    def warm_up(self, observations: Observations) -> None:
        """Add observations to the statistics."""
        assert isinstance(observations, Tensor)
        if self.normalizer is not None and not self.normalizer.ready:
            for chunk in self._chunks(observations):
                self.normalizer.moments.update(self._features(chunk))

    def forward(self, observations: Observations) -> Tensor:
        """Embed (n, *shape), a chunk at a time."""
        # Where nobody asks for gradients. Tensors made in inference mode could neither be saved for a backward pass nor
        # be changed in place once they are a memory's buffers: what leaves it is an ordinary one, made by `cat`.
        with torch.inference_mode(not torch.is_grad_enabled()):
            embed = self._embedding()
            chunks = self._chunks(torch.as_tensor(observations))
            parts = [embed(_filled(chunk))[: len(chunk)] for chunk in chunks]
        return torch.cat(parts)

    def _chunks(self, observations: Tensor) -> Iterator[Tensor]:
        """Parts of the observations, moved to the encoder's device one by one if they are elsewhere."""
        device = next(self.network.parameters()).device
        for chunk in observations.split(self._chunk_size(on_gpu=device.type != "cpu")):
            yield chunk.to(device)

    @abstractmethod
    def _chunk_size(self, *, on_gpu: bool) -> int:
        """Observations encoded at once, which bounds the memory."""

    def _embedding(self) -> Callable[[Tensor], Tensor]:
        """The function that embeds a chunk, with the weights of now."""
        return lambda observations: self.network(self._inputs(observations))

    def _inputs(self, observations: Tensor) -> Tensor:
        inputs = self._features(observations)
        return inputs if self.normalizer is None else self.normalizer(inputs)

    @abstractmethod
    def _features(self, observations: Tensor) -> Tensor:
        """What the normalisation sees, as float32."""


class VectorEncoder(SpaceEncoder):
    """Encodes everything but images by the paper's MLP."""

    def __init__(self, space: Space, embedding_size: int, generator: torch.Generator, warmup: int) -> None:
        size = feature_size(space)
        super().__init__(space, dense_network(size, embedding_size, generator), _normalizer((size,), warmup))

    def _chunk_size(self, *, on_gpu: bool) -> int:
        return VECTORS[on_gpu]

    def _features(self, observations: Tensor) -> Tensor:
        return features(self.space, observations)


class ImageEncoder(SpaceEncoder):
    """Encodes uint8 images by the paper's CNN.

    The BatchNorm layers and the division of the pixels by 255 are multiplied into the weights of the convolutions, so
    that no pass over the pixels or the feature maps is spent on them. The products are a few ten thousand numbers, made
    anew for each call: they follow whatever is loaded, moved or trained, and gradients flow through them.
    """

    def __init__(
        self, space: Space, channel_axis: int, embedding_size: int, generator: torch.Generator, warmup: int
    ) -> None:
        shape = _channels_first(space, channel_axis)
        super().__init__(space, conv_network(shape, embedding_size, generator), _normalizer(shape, warmup))
        self.channel_axis = channel_axis
        # Channels first, oneDNN rewrites what each layer makes, 2 / channels of the pixels and less; channels last, the
        # pixels themselves have to be turned over, unless they come so (benchmarks/encoder.py).
        turn = channel_axis == 2 or shape[0] < 4
        self.memory_format = torch.channels_last if turn else torch.contiguous_format
        # The first layer makes 32 channels of a sixteenth of the area: as many numbers as two channels of pixels.
        self.largest_size = max(shape[0], 2) * shape[1] * shape[2]

    def _chunk_size(self, *, on_gpu: bool) -> int:
        return max(PIXELS[on_gpu] // self.largest_size // ROWS, 1) * ROWS

    def _embedding(self) -> Callable[[Tensor], Tensor]:
        layers = list(self.network)
        convolutions = [folded(*pair) for pair in zip(layers[0:9:3], layers[1:9:3], strict=True)]  # type: ignore[arg-type]
        if self.normalizer is None:
            # A convolution is linear: scaling its weights is scaling its pixels.
            first = convolutions[0]
            convolutions[0] = first._replace(weight=scale_pixels(self.space, first.weight))
        return partial(self._embed, convolutions, self.network[9:])

    def _embed(self, convolutions: list[Convolution], head: nn.Module, observations: Tensor) -> Tensor:
        # The only reference to the pixels, so that they are gone after the first layer: glibc keeps free memory for
        # the next chunk up to twice its largest block.
        images = self._inputs(observations)
        for convolution in convolutions:
            images = convolve(images, convolution).relu_()
        embeddings: Tensor = head(images)
        return embeddings

    def _inputs(self, observations: Tensor) -> Tensor:
        # The normalisation differs from pixel to pixel, which no weight can take over.
        return self._pixels(observations) if self.normalizer is None else super()._inputs(observations)

    def _features(self, observations: Tensor) -> Tensor:
        return scale_pixels(self.space, self._pixels(observations))

    def _pixels(self, observations: Tensor) -> Tensor:
        """Images as float32, (n, channels, height, width), by one copy."""
        if self.channel_axis == 2:
            observations = observations.permute(0, 3, 1, 2)
        return observations.to(torch.float32, memory_format=self.memory_format)


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


def _build(space: Space, embedding_size: int, generator: torch.Generator, warmup: int) -> Encoder:
    parts = dict_parts(space)
    if parts is None:
        channel_axis = image_channel_axis(space)
        if channel_axis is None:
            return VectorEncoder(space, embedding_size, generator, warmup)
        return ImageEncoder(space, channel_axis, embedding_size, generator, warmup)
    return DictEncoder({key: _build(part, embedding_size, generator, warmup) for key, part in parts.items()})


def _normalizer(shape: tuple[int, ...], warmup: int) -> FrozenNormalizer | None:
    return FrozenNormalizer(shape, warmup) if warmup > 0 else None


def _filled(observations: Tensor) -> Tensor:
    """A batch of a multiple of `ROWS` observations, its first one repeated at the end; itself if it is one already."""
    missing = -len(observations) % ROWS
    if missing == 0:
        return observations
    return torch.cat([observations, observations[:1].expand(missing, *observations.shape[1:])])


def _channels_first(space: Space, channel_axis: int) -> tuple[int, ...]:
    assert space.shape is not None
    return space.shape if channel_axis == 0 else (space.shape[2], *space.shape[:2])
