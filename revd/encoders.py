"""Random encoders: the paper's CNN for images, its MLP for everything else, one per key for Dict spaces.

An encoder's output depends on its seed, its weights and the observation, never on the rest of the batch: BatchNorm
always stays in eval mode. On a CPU this holds to the last bit, on Intel's with one thread of torch. On a GPU, and on
Intel's CPUs with several threads, embeddings of batches of different size differ by rounding. On a GPU, too, equal
observations of one batch have equal embeddings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast, get_args

import torch
from torch import Tensor, nn

from revd.networks import Convolution, Initialization, conv_network, convolve, dense_network, folded
from revd.normalizers import FrozenNormalizer, RunningNormalizer
from revd.spaces import check_space, dict_parts, feature_size, features, image_channel_axis, scale_pixels

if TYPE_CHECKING:
    from revd.rollout import Observations
    from revd.spaces import Space

#: Makes the normaliser of features of one shape; None without normalisation.
MakeNormalizer: TypeAlias = "Callable[[tuple[int, ...]], FrozenNormalizer] | None"

#: Makes the inputs of a network, so that it may hold the only reference to them.
MakeInputs: TypeAlias = Callable[[], Tensor]

#: Vectors encoded at once, on a CPU and on a GPU, where many small kernels cost more than a large one does.
VECTORS_PER_CHUNK = (512, 16_384)
#: Numbers in the largest tensor of a chunk of images, on a CPU and on a GPU. glibc returns blocks above 32 MiB to the
#: system at once, and page faults in new ones would take nearly as long as the convolutions. All that is made of a
#: chunk stays below that.
NUMBERS_PER_CHUNK = (2**21, 2**27)
#: Numbers that are added to the statistics at once on a CPU. In float64 they fit its cache; more of them would take ten
#: times as long, since each step would need new pages of memory.
NUMBERS_PER_UPDATE = 2**18
#: Batches are padded to a multiple of this. Matrix kernels treat the rows of an incomplete block differently, so that
#: embeddings of equal observations would differ in their last bits. On Intel's CPUs, MKL has other kernels for eight
#: rows than for sixteen.
ROW_MULTIPLE = 16


class Encoder(nn.Module, ABC):
    """Maps observations (n, *obs_shape) to embeddings (n, embedding_size)."""

    embedding_size: int

    def forward(self, observations: Observations, *, normalized_by: Encoder | None = None) -> Tensor:
        """Embed a batch of observations, normalised by another encoder's statistics if one is given."""
        owner = self if normalized_by is None else normalized_by
        return owner.embed_by_each([self], observations)[0]

    @abstractmethod
    def embed_by_each(self, encoders: Sequence[Encoder], observations: Observations) -> list[Tensor]:
        """Embed a batch by several encoders of one space, on inputs normalised once, by this encoder's statistics."""

    @abstractmethod
    def warm_up(self, observations: Observations, counts: Tensor | None = None) -> None:
        """Add observations, each as often as `counts` or once, to the normalisation's statistics unless frozen."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether the warm-up is over, so that observations can be embedded."""

    def train(self, mode: bool = True) -> Encoder:
        """Stay in eval mode: BatchNorm must not depend on the batch."""
        return super().train(False)


def make_encoder(
    space: Space,
    *,
    embedding_size: int,
    seed: int = 0,
    init: Initialization = "orthogonal",
    normalize: bool = False,
    warmup: int = 1_000,
    running: bool = False,
    trainable: bool = False,
) -> Encoder:
    """Build the encoder for a space, with weights that depend only on `seed`.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict of these.
        embedding_size: Size of the embedding; of each key's embedding for Dict spaces.
        seed: Seed of the weights; torch's global generator is not used.
        init: Distribution of the weights: "orthogonal" with gain sqrt(2), or "torch", PyTorch's own for each layer.
        normalize: Normalise observations to zero mean and unit variance before encoding them.
        warmup: Observations from which the statistics are computed before they are frozen.
        running: Whether the statistics follow all observations after the warm-up, and the output is clipped, as in RND.
        trainable: Whether the parameters can be trained, as RIDE does; frozen otherwise.
    """
    if embedding_size < 1:
        raise ValueError(f"embedding_size must be at least 1, got {embedding_size}")
    if init not in get_args(Initialization):
        raise ValueError(f"init must be 'orthogonal' or 'torch', got {init!r}")
    check_space(space, "observation_space")
    generator = torch.Generator().manual_seed(seed)
    weights = _Weights(embedding_size, generator, init)
    kind = RunningNormalizer if running else FrozenNormalizer
    encoder = _build(space, weights, partial(kind, warmup=warmup) if normalize else None)
    encoder.eval().requires_grad_(trainable)
    return encoder


class _Weights(NamedTuple):
    """How many numbers a network gives, and how its random weights are drawn."""

    embedding_size: int
    generator: torch.Generator
    init: Initialization


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
        """Whether the warm-up is over; always True without normalisation."""
        return self.normalizer is None or self.normalizer.ready

    def warm_up(self, observations: Observations, counts: Tensor | None = None) -> None:
        """Add observations to the statistics."""
        assert isinstance(observations, Tensor)
        if self.normalizer is not None and self.normalizer.learning:
            most_rows = max(NUMBERS_PER_UPDATE // max(observations[:1].numel(), 1), 1)
            start = 0
            for chunk in self._chunks(observations, most_on_cpu=most_rows):
                part = None if counts is None else counts[start : start + len(chunk)]
                self.normalizer.moments.update(self._features(chunk), part)
                start += len(chunk)

    def embed_by_each(self, encoders: Sequence[Encoder], observations: Observations) -> list[Tensor]:
        """Embed (n, *shape) by each encoder, a chunk at a time."""
        # Inference mode is faster where no gradient is needed. Its tensors can neither be saved for a backward pass nor
        # be changed in place as a memory's buffers, so `cat` outside it makes an ordinary tensor.
        with torch.inference_mode(not torch.is_grad_enabled()):
            functions = [cast("SpaceEncoder", encoder)._embedding(self.normalizer) for encoder in encoders]
            parts = []
            for chunk in self._chunks(torch.as_tensor(observations)):
                make_inputs: MakeInputs = partial(self._inputs, _pad_rows(chunk), self.normalizer)
                if len(functions) > 1:
                    make_inputs = _always(make_inputs())
                parts.append([embed(make_inputs)[: len(chunk)] for embed in functions])
        return [torch.cat(each) for each in zip(*parts, strict=True)]

    def _chunks(self, observations: Tensor, *, most_on_cpu: int | None = None) -> Iterator[Tensor]:
        """Split the observations into chunks, on a CPU of at most so many, and move each to the encoder's device."""
        device = next(self.network.parameters()).device
        size = self._chunk_size(on_gpu=device.type != "cpu")
        if most_on_cpu is not None and device.type == "cpu":
            size = min(size, most_on_cpu)
        for chunk in observations.split(size):
            yield chunk.to(device)

    @abstractmethod
    def _chunk_size(self, *, on_gpu: bool) -> int:
        """How many observations are encoded at once, which limits memory."""

    def _embedding(self, normalizer: FrozenNormalizer | None) -> Callable[[MakeInputs], Tensor]:
        """The function that embeds a chunk with the present weights, from its inputs normalised by `normalizer`."""
        return lambda make_inputs: self.network(make_inputs())

    def _inputs(self, observations: Tensor, normalizer: FrozenNormalizer | None) -> Tensor:
        inputs = self._features(observations)
        return inputs if normalizer is None else normalizer(inputs)

    @abstractmethod
    def _features(self, observations: Tensor) -> Tensor:
        """The inputs of the normalisation, as float32."""


class VectorEncoder(SpaceEncoder):
    """Encodes all spaces but images by the paper's MLP."""

    def __init__(self, space: Space, weights: _Weights, make_normalizer: MakeNormalizer) -> None:
        size = feature_size(space)
        normalizer = make_normalizer((size,)) if make_normalizer else None
        super().__init__(space, dense_network(size, *weights), normalizer)

    def _chunk_size(self, *, on_gpu: bool) -> int:
        return VECTORS_PER_CHUNK[on_gpu]

    def _features(self, observations: Tensor) -> Tensor:
        return features(self.space, observations)


class ImageEncoder(SpaceEncoder):
    """Encodes uint8 images by the paper's CNN.

    The BatchNorm layers and the division of the pixels by 255 are multiplied into the weights of the convolutions,
    which saves passes over the pixels and the feature maps. Each call computes these products again, a few ten thousand
    numbers. So they follow loading, moving and training, and gradients flow through them.
    """

    def __init__(self, space: Space, channel_axis: int, weights: _Weights, make_normalizer: MakeNormalizer) -> None:
        shape = _channels_first(space, channel_axis)
        normalizer = make_normalizer(shape) if make_normalizer else None
        super().__init__(space, conv_network(shape, *weights), normalizer)
        self.channel_axis = channel_axis
        # With channels first, oneDNN reorders the output of each layer, at most 2 / channels as many numbers as pixels.
        # With channels last, the pixels must be reordered unless they have this layout (benchmarks/encoder.py).
        use_channels_last = channel_axis == 2 or shape[0] < 4
        self.memory_format = torch.channels_last if use_channels_last else torch.contiguous_format
        # The first layer's output has 32 channels of 1/16 of the area: as many numbers as two channels of pixels.
        self.largest_size = max(shape[0], 2) * shape[1] * shape[2]

    def _chunk_size(self, *, on_gpu: bool) -> int:
        return max(NUMBERS_PER_CHUNK[on_gpu] // self.largest_size // ROW_MULTIPLE, 1) * ROW_MULTIPLE

    def _embedding(self, normalizer: FrozenNormalizer | None) -> Callable[[MakeInputs], Tensor]:
        layers = list(self.network)
        convolutions = [folded(*pair) for pair in zip(layers[0:9:3], layers[1:9:3], strict=True)]  # type: ignore[arg-type]
        if normalizer is None:
            # A convolution is linear: scaling its weights is scaling its pixels.
            first = convolutions[0]
            convolutions[0] = first._replace(weight=scale_pixels(self.space, first.weight))
        return partial(_embed_images, convolutions, self.network[9:])

    def _inputs(self, observations: Tensor, normalizer: FrozenNormalizer | None) -> Tensor:
        # The normalisation differs from pixel to pixel, so the weights cannot include it.
        return self._pixels(observations) if normalizer is None else super()._inputs(observations, normalizer)

    def _features(self, observations: Tensor) -> Tensor:
        return scale_pixels(self.space, self._pixels(observations))

    def _pixels(self, observations: Tensor) -> Tensor:
        """Convert images to float32, (n, channels, height, width), by one copy."""
        if self.channel_axis == 2:
            observations = observations.permute(0, 3, 1, 2)
        return observations.to(torch.float32, memory_format=self.memory_format)


class DictEncoder(Encoder):
    """Encodes each key of a Dict space and concatenates, in the space's own order."""

    def __init__(self, encoders: dict[str, Encoder]) -> None:
        super().__init__()
        self.keys = tuple(encoders)
        # A list, not a ModuleDict, since keys of observations may contain dots and names of modules may not.
        self.encoders = nn.ModuleList(encoders.values())
        self.embedding_size = sum(encoder.embedding_size for encoder in encoders.values())

    @property
    def ready(self) -> bool:
        """Whether every key's warm-up is over."""
        return all(encoder.ready for _, encoder in self._named())

    def warm_up(self, observations: Observations, counts: Tensor | None = None) -> None:
        """Add observations to every key's statistics."""
        assert isinstance(observations, dict)
        for key, encoder in self._named():
            encoder.warm_up(observations[key], counts)

    def embed_by_each(self, encoders: Sequence[Encoder], observations: Observations) -> list[Tensor]:
        """Embed {key: (n, *shape)} by each encoder."""
        assert isinstance(observations, dict)
        keys = []
        for index, (key, owner) in enumerate(self._named()):
            parts = [cast("DictEncoder", encoder)._named()[index][1] for encoder in encoders]
            keys.append(owner.embed_by_each(parts, observations[key]))
        return [torch.cat(each, dim=-1) for each in zip(*keys, strict=True)]

    def _named(self) -> list[tuple[str, Encoder]]:
        return list(zip(self.keys, self.encoders, strict=True))  # type: ignore[arg-type]


def _build(space: Space, weights: _Weights, make_normalizer: MakeNormalizer) -> Encoder:
    parts = dict_parts(space)
    if parts is None:
        channel_axis = image_channel_axis(space)
        if channel_axis is None:
            return VectorEncoder(space, weights, make_normalizer)
        return ImageEncoder(space, channel_axis, weights, make_normalizer)
    return DictEncoder({key: _build(part, weights, make_normalizer) for key, part in parts.items()})


def _pad_rows(observations: Tensor) -> Tensor:
    """Pad a batch to a multiple of `ROW_MULTIPLE` by repeating its first observation."""
    missing = -len(observations) % ROW_MULTIPLE
    if missing == 0:
        return observations
    return torch.cat([observations, observations[:1].expand(missing, *observations.shape[1:])])


def _always(inputs: Tensor) -> MakeInputs:
    return lambda: inputs


def _embed_images(convolutions: list[Convolution], head: nn.Module, make_inputs: MakeInputs) -> Tensor:
    # There is no other reference to the pixels, unless encoders share them, so that they are freed after the first
    # layer. glibc keeps freed memory for the next chunk, up to twice its largest block.
    images = make_inputs()
    for convolution in convolutions:
        images = convolve(images, convolution).relu_()
    embeddings: Tensor = head(images)
    return embeddings


def _channels_first(space: Space, channel_axis: int) -> tuple[int, ...]:
    assert space.shape is not None
    return space.shape if channel_axis == 0 else (space.shape[2], *space.shape[:2])
