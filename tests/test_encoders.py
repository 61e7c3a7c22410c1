from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from revd import encoders
from revd.encoders import VECTORS_PER_CHUNK, DictEncoder, Encoder, ImageEncoder, SpaceEncoder, make_encoder

IMAGE = spaces.Box(0, 255, (3, 84, 84), np.uint8)
VECTOR = spaces.Box(-np.inf, np.inf, (5,), np.float32)
NESTED = spaces.Dict(
    {
        "camera.front": spaces.Box(0, 255, (36, 36, 1), np.uint8),
        "state": spaces.Dict({"gear.box": spaces.Discrete(3, start=-1), "speed": VECTOR}),
    }
)
SPACES = {
    "image": IMAGE,
    "vector": VECTOR,
    "scalar": spaces.Box(-1, 1, (), np.float32),
    "matrix": spaces.Box(-1, 1, (2, 3), np.float64),
    "small image": spaces.Box(0, 255, (7, 7, 3), np.uint8),
    "flat image": spaces.Box(0, 255, (50, 50), np.uint8),
    "discrete": spaces.Discrete(4, start=3),
    "multi discrete": spaces.MultiDiscrete([2, 5]),
    "multi binary": spaces.MultiBinary([2, 2]),
    "dict": NESTED,
}


def samples(space: spaces.Space[Any], n: int, seed: int = 0) -> Any:
    """(n, *shape) elements of a space, or a dict of such."""
    if isinstance(space, spaces.Dict):
        return {key: samples(part, n, seed + i) for i, (key, part) in enumerate(space.items())}
    space.seed(seed)
    return torch.as_tensor(np.array([space.sample() for _ in range(n)]))


def rows(observations: Any, index: slice) -> Any:
    if isinstance(observations, dict):
        return {key: rows(value, index) for key, value in observations.items()}
    return observations[index]


def layers(encoder: Encoder) -> list[nn.Module]:
    assert isinstance(encoder, SpaceEncoder)
    return list(encoder.network)


def described(layer: nn.Module) -> str:
    match layer:
        case nn.Conv2d():
            return f"conv {layer.in_channels}->{layer.out_channels} {layer.kernel_size} stride {layer.stride}"
        case nn.Linear():
            return f"dense {layer.in_features}->{layer.out_features}"
        case nn.BatchNorm2d():
            return f"batch norm {layer.num_features}"
    return type(layer).__name__


def test_images_go_through_the_cnn_of_the_paper() -> None:
    encoder = make_encoder(IMAGE, embedding_size=128)
    assert [described(layer) for layer in layers(encoder)] == [
        "conv 3->32 (8, 8) stride (4, 4)",
        "batch norm 32",
        "ReLU",
        "conv 32->64 (4, 4) stride (2, 2)",
        "batch norm 64",
        "ReLU",
        "conv 64->32 (3, 3) stride (1, 1)",
        "batch norm 32",
        "ReLU",
        "Flatten",
        "dense 1568->512",
        "ReLU",
        "dense 512->128",
    ]


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("vector", 5),
        ("scalar", 1),
        ("matrix", 6),
        ("small image", 147),
        ("flat image", 2500),
        ("discrete", 4),
        ("multi discrete", 7),
        ("multi binary", 4),
    ],
)
def test_everything_else_goes_through_the_mlp_of_the_paper(name: str, inputs: int) -> None:
    encoder = make_encoder(SPACES[name], embedding_size=64)
    expected = [f"dense {inputs}->64", "ReLU", "dense 64->64", "ReLU", "dense 64->64"]
    assert [described(layer) for layer in layers(encoder)] == expected


@pytest.mark.parametrize("name", SPACES)
def test_embeddings_are_float32_rows_of_the_asked_size(name: str) -> None:
    encoder = make_encoder(SPACES[name], embedding_size=6)
    embeddings = encoder(samples(SPACES[name], 4))
    assert embeddings.dtype == torch.float32
    assert embeddings.shape == (4, encoder.embedding_size)
    assert encoder.embedding_size == (18 if name == "dict" else 6)
    assert len(torch.unique(embeddings, dim=0)) > 1


@pytest.mark.parametrize("space", [IMAGE, VECTOR], ids=["image", "vector"])
def test_initial_weights_are_orthogonal_with_gain_sqrt_2_and_biases_zero(space: spaces.Space[Any]) -> None:
    for layer in layers(make_encoder(space, embedding_size=16)):
        if isinstance(layer, nn.Conv2d | nn.Linear):
            weight = layer.weight.flatten(1)
            gram = weight @ weight.T if len(weight) <= weight.shape[1] else weight.T @ weight
            torch.testing.assert_close(gram, 2 * torch.eye(len(gram)), atol=1e-4, rtol=0)
            assert layer.bias is not None
            assert not layer.bias.any()


@pytest.mark.parametrize("name", ["image", "vector", "dict"])
def test_seeds_decide_the_weights(name: str) -> None:
    def weights(seed: int) -> Tensor:
        encoder = make_encoder(SPACES[name], embedding_size=4, seed=seed)
        return torch.cat([parameter.flatten() for parameter in encoder.parameters()])

    assert torch.equal(weights(3), weights(3))
    assert not torch.equal(weights(3), weights(4))


def test_keys_of_a_dict_have_weights_of_their_own() -> None:
    encoder = make_encoder(spaces.Dict({"a": VECTOR, "b": VECTOR}), embedding_size=4)
    x = samples(VECTOR, 3)
    first, second = encoder({"a": x, "b": x}).split(4, dim=1)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("name", SPACES)
def test_the_global_generator_is_untouched(name: str) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    encoder = make_encoder(SPACES[name], embedding_size=4, seed=7, normalize=True)
    encoder(samples(SPACES[name], 2))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["image", "vector", "dict"])
def test_encoders_are_frozen_unless_asked(name: str) -> None:
    assert not any(p.requires_grad for p in make_encoder(SPACES[name], embedding_size=4).parameters())
    assert all(p.requires_grad for p in make_encoder(SPACES[name], embedding_size=4, trainable=True).parameters())


@pytest.mark.parametrize("name", ["image", "vector"])
def test_inference_mode_is_used_where_nobody_asks_for_gradients_and_ends_with_the_encoder(name: str) -> None:
    encoder = make_encoder(SPACES[name], embedding_size=4)
    assert isinstance(encoder, SpaceEncoder)
    modes: list[bool] = []
    encoder.network[-1].register_forward_pre_hook(lambda *_: modes.append(torch.is_inference_mode_enabled()))
    with torch.no_grad():
        quiet = encoder(samples(SPACES[name], 3))
    traced = encoder(samples(SPACES[name], 3))
    assert modes == [True, False]
    assert not quiet.is_inference()
    assert torch.equal(quiet, traced)


@pytest.mark.parametrize("name", ["image", "dict"])
def test_batch_norm_stays_in_eval_mode(name: str) -> None:
    encoder = make_encoder(SPACES[name], embedding_size=4)
    assert not any(module.training for module in encoder.modules())
    observations = samples(SPACES[name], 3)
    before, state = encoder(observations), {key: value.clone() for key, value in encoder.state_dict().items()}
    nn.Sequential(encoder).train()
    assert not any(module.training for module in encoder.modules())
    assert torch.equal(encoder(observations), before)
    assert all(torch.equal(value, state[key]) for key, value in encoder.state_dict().items())


@pytest.mark.parametrize("name", SPACES)
def test_an_embedding_does_not_depend_on_its_batch(name: str) -> None:
    encoder = make_encoder(SPACES[name], embedding_size=8)
    observations = samples(SPACES[name], 9)
    together = encoder(observations)
    for part in (slice(0, 1), slice(3, 5), slice(2, 9)):
        torch.testing.assert_close(encoder(rows(observations, part)), together[part], rtol=1e-4, atol=1e-5)


def test_long_batches_are_encoded_in_chunks() -> None:
    encoder = make_encoder(VECTOR, embedding_size=4)
    observations = samples(VECTOR, VECTORS_PER_CHUNK[0] + 16)
    sizes: list[int] = []
    layers(encoder)[0].register_forward_hook(lambda _module, inputs, _output: sizes.append(len(inputs[0])))
    embeddings = encoder(observations)
    assert sizes == [VECTORS_PER_CHUNK[0], 16]
    torch.testing.assert_close(embeddings[-16:], encoder(observations[-16:]))


def test_no_observations_give_no_embeddings() -> None:
    for name in ("vector", "image", "discrete", "multi discrete"):
        assert make_encoder(SPACES[name], embedding_size=4)(samples(SPACES[name], 1)[:0]).shape == (0, 4)


def test_channel_order_does_not_matter() -> None:
    first = make_encoder(spaces.Box(0, 255, (3, 40, 50), np.uint8), embedding_size=8)
    last = make_encoder(spaces.Box(0, 255, (40, 50, 3), np.uint8), embedding_size=8)
    images = samples(spaces.Box(0, 255, (3, 40, 50), np.uint8), 4)
    torch.testing.assert_close(first(images), last(images.permute(0, 2, 3, 1)), rtol=1e-4, atol=1e-5)


def test_uint8_values_are_scaled_to_one() -> None:
    encoder = make_encoder(SPACES["small image"], embedding_size=8)
    pixels = samples(SPACES["small image"], 2)
    inputs: list[Tensor] = []
    layers(encoder)[0].register_forward_hook(lambda _module, args, _output: inputs.append(args[0]))
    encoder(pixels)
    torch.testing.assert_close(inputs[0][:2].flatten(), pixels.flatten() / 255)


def test_discrete_starts_are_subtracted() -> None:
    shifted = make_encoder(spaces.Discrete(4, start=3), embedding_size=8)
    plain = make_encoder(spaces.Discrete(4), embedding_size=8)
    values = torch.arange(4)
    assert torch.equal(shifted(values + 3), plain(values))
    with pytest.raises(ValueError, match="outside Discrete"):
        shifted(values)


def test_dict_embeddings_are_concatenated_in_the_order_of_the_space() -> None:
    encoder = make_encoder(NESTED, embedding_size=4)
    assert isinstance(encoder, DictEncoder)
    observations = samples(NESTED, 3)
    camera, state = encoder.encoders
    parts = [camera(observations["camera.front"]), state(observations["state"])]
    assert torch.equal(encoder(observations), torch.cat(parts, dim=1))
    reordered = dict(reversed(observations.items()))
    assert torch.equal(encoder(reordered), encoder(observations))
    other = {**observations, "state": {**observations["state"], "speed": observations["state"]["speed"] + 1}}
    changed = (encoder(other) != encoder(observations)).any(dim=0)
    assert changed.tolist() == [False] * 8 + [True] * 4


def test_state_dicts_of_keys_with_dots_round_trip() -> None:
    encoder, fresh = (make_encoder(NESTED, embedding_size=4, seed=seed) for seed in (0, 1))
    fresh.load_state_dict(encoder.state_dict())
    observations = samples(NESTED, 3)
    assert torch.equal(encoder(observations), fresh(observations))


@pytest.mark.parametrize("space", [spaces.Tuple([VECTOR]), spaces.Text(4), spaces.Dict({"a": spaces.Text(4)})])
def test_unsupported_spaces(space: spaces.Space[Any]) -> None:
    with pytest.raises(ValueError, match=r"observation_space.* is a (Tuple|Text) space"):
        make_encoder(space, embedding_size=4)


def test_embedding_size_must_be_positive() -> None:
    with pytest.raises(ValueError, match="embedding_size must be at least 1, got 0"):
        make_encoder(VECTOR, embedding_size=0)


def test_normalisation_takes_its_statistics_from_the_warm_up_and_freezes_them() -> None:
    encoder = make_encoder(VECTOR, embedding_size=4, normalize=True, warmup=30)
    plain = make_encoder(VECTOR, embedding_size=4)
    first, second, later = (3 + 5 * samples(VECTOR, 20, seed) for seed in range(3))
    assert plain.ready
    assert not encoder.ready
    encoder.warm_up(first)
    assert not encoder.ready
    encoder.warm_up(second)
    assert encoder.ready
    seen = torch.cat([first, second]).double()
    normalised = ((later - seen.mean(dim=0)) / seen.std(dim=0, unbiased=False)).float()
    torch.testing.assert_close(encoder(later), plain(normalised), rtol=1e-4, atol=1e-5)
    before = encoder(later)
    encoder.warm_up(100 * later)
    plain.warm_up(100 * later)
    assert torch.equal(encoder(later), before)


def test_features_that_did_not_vary_are_only_centred() -> None:
    encoder = make_encoder(VECTOR, embedding_size=4, normalize=True, warmup=10)
    plain = make_encoder(VECTOR, embedding_size=4)
    seen = samples(VECTOR, 10)
    seen[:, 1] = 7.1
    encoder.warm_up(seen)
    later = seen.clone()
    later[:, 1] = 9.1
    expected = (later - seen.mean(dim=0)) / seen.std(dim=0, unbiased=False)
    expected[:, 1] = 2
    torch.testing.assert_close(encoder(later), plain(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["image", "discrete", "dict"])
def test_every_space_can_be_normalised(name: str) -> None:
    encoder = make_encoder(SPACES[name], embedding_size=4, normalize=True, warmup=8)
    observations = samples(SPACES[name], 8)
    encoder.warm_up(observations)
    assert encoder.ready
    embeddings = encoder(observations)
    assert embeddings.isfinite().all()
    assert not torch.allclose(embeddings, make_encoder(SPACES[name], embedding_size=4)(observations))


def test_images_are_normalised_pixel_by_pixel() -> None:
    encoder = make_encoder(IMAGE, embedding_size=4, normalize=True, warmup=6)
    images = samples(IMAGE, 6)
    encoder.warm_up(images)
    normalised = (images - images.double().mean(dim=0)) / images.double().std(dim=0, unbiased=False)
    assert_close_to_float64(encoder, normalised, encoder(images))


FRAMES = {
    "stacked frames": spaces.Box(0, 255, (4, 44, 36), np.uint8),
    "channels last": spaces.Box(0, 255, (36, 44, 3), np.uint8),
    "grey, first": spaces.Box(0, 255, (1, 36, 36), np.uint8),
    "grey, last": spaces.Box(0, 255, (40, 36, 1), np.uint8),
}
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def image_encoder(space: spaces.Space[Any], **arguments: Any) -> ImageEncoder:
    """An encoder whose BatchNorm and biases are not the identity and zero that they start from."""
    encoder = make_encoder(space, embedding_size=6, **arguments)
    assert isinstance(encoder, ImageEncoder)
    generator = torch.Generator().manual_seed(1)
    for tensor in (*encoder.parameters(), *encoder.network.buffers()):
        if tensor.ndim == 1:
            tensor.data.uniform_(0.5, 1.5, generator=generator)
    return encoder


def pixels_of(space: spaces.Space[Any], n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images as the space has them, and as the network takes them."""
    images = samples(space, n, seed)
    scaled = images.double() / 255
    return images, scaled if space.shape[0] <= space.shape[2] else scaled.permute(0, 3, 1, 2)  # type: ignore[index]


def assert_close_to_float64(encoder: Encoder, inputs: Tensor, embeddings: Tensor) -> None:
    assert isinstance(encoder, SpaceEncoder)
    expected = deepcopy(encoder.network).double()(inputs.double()).detach()
    torch.testing.assert_close(embeddings.double(), expected, rtol=0, atol=2e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("name", FRAMES)
def test_folding_gives_the_numbers_of_the_network_layer_by_layer(name: str) -> None:
    encoder = image_encoder(FRAMES[name])
    images, scaled = pixels_of(FRAMES[name], 11)
    assert_close_to_float64(encoder, scaled, encoder(images))
    other = image_encoder(FRAMES[name], seed=1)
    assert not torch.allclose(other(images), encoder(images))
    for copied in (deepcopy(encoder), other):
        copied.load_state_dict(encoder.state_dict())
        assert torch.equal(copied(images), encoder(images))


@pytest.mark.parametrize("name", FRAMES)
def test_images_of_any_type_and_strides_embed_alike(name: str) -> None:
    encoder = image_encoder(FRAMES[name])
    images, _ = pixels_of(FRAMES[name], 16)
    expected = encoder(images)
    strided = images.permute(3, 1, 2, 0).contiguous().permute(3, 1, 2, 0)
    for same in (images.float(), images.long(), strided, images.numpy(), images.repeat_interleave(2, dim=0)[::2]):
        assert torch.equal(encoder(same), expected)


@pytest.mark.parametrize("name", FRAMES)
def test_normalised_images_go_through_the_folded_network(name: str) -> None:
    encoder = image_encoder(FRAMES[name], normalize=True, warmup=20)
    seen, scaled = pixels_of(FRAMES[name], 20)
    encoder.warm_up(seen)
    later, inputs = pixels_of(FRAMES[name], 5, seed=1)
    assert_close_to_float64(encoder, (inputs - scaled.mean(dim=0)) / scaled.std(dim=0, unbiased=False), encoder(later))


@pytest.mark.parametrize("name", FRAMES)
def test_gradients_reach_every_parameter_through_the_folding(name: str) -> None:
    encoder = image_encoder(FRAMES[name], trainable=True)
    naive = deepcopy(encoder.network).double()
    images, scaled = pixels_of(FRAMES[name], 8)
    weights = torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    (encoder(images) * weights).sum().backward()
    (naive(scaled) * weights).sum().backward()
    for got, expected in zip(encoder.network.parameters(), naive.parameters(), strict=True):
        assert got.grad is not None
        assert expected.grad is not None
        scale = float(expected.grad.abs().max())
        torch.testing.assert_close(got.grad.double(), expected.grad, rtol=0, atol=1e-5 * scale)


def test_a_step_of_training_changes_the_embeddings() -> None:
    encoder = image_encoder(FRAMES["stacked frames"], trainable=True)
    images, scaled = pixels_of(FRAMES["stacked frames"], 8)
    encoder(images).square().sum().backward()
    torch.optim.SGD(encoder.parameters(), lr=1e-4).step()
    assert_close_to_float64(encoder, scaled, encoder(images).detach())


def test_folding_leaves_the_state_alone() -> None:
    encoder = make_encoder(IMAGE, embedding_size=4)
    before = {key: value.clone() for key, value in encoder.state_dict().items()}
    encoder(samples(IMAGE, 3))
    after = encoder.state_dict()
    norm = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    names = {0: norm[:2], 1: norm, 3: norm[:2], 4: norm, 6: norm[:2], 7: norm, 10: norm[:2], 12: norm[:2]}
    assert list(after) == [f"network.{layer}.{name}" for layer, parts in names.items() for name in parts]
    assert all(torch.equal(after[key], value) for key, value in before.items())


class Allocated(TorchDispatchMode):
    """Notes the tensors that operations make, views left out."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[Tensor] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and not function.is_view:
            self.tensors.append(result)
        return result


@pytest.mark.parametrize("name", FRAMES)
def test_frames_are_copied_once_and_a_chunk_at_a_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = image_encoder(FRAMES[name])
    images, _ = pixels_of(FRAMES[name], 64)
    size = images[0].numel()
    monkeypatch.setattr(encoders, "NUMBERS_PER_CHUNK", (16 * encoder.largest_size, 0))
    with Allocated() as allocated:
        encoder(images)
    assert not [tensor for tensor in allocated.tensors if tensor.dtype == torch.uint8]
    assert [len(tensor) for tensor in allocated.tensors if tensor.numel() == 16 * size] == [16] * 4
    assert max(tensor.numel() for tensor in allocated.tensors) <= 16 * encoder.largest_size


@pytest.mark.parametrize("shape", [(4, 84, 84), (1, 84, 84), (210, 160, 3)])
def test_chunks_fit_what_malloc_keeps_and_a_gpu_takes_a_rollout_at_once(shape: tuple[int, ...]) -> None:
    encoder = make_encoder(spaces.Box(0, 255, shape, np.uint8), embedding_size=4)
    assert isinstance(encoder, ImageEncoder)
    chunk = encoder._chunk_size(on_gpu=False)
    assert chunk % encoders.ROW_MULTIPLE == 0
    assert 4 * chunk * np.prod(shape) <= 16 * 2**20
    if 84 in shape:
        assert chunk >= 64
        assert encoder._chunk_size(on_gpu=True) >= 2_560


def test_the_largest_images_go_through_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "NUMBERS_PER_CHUNK", (1, 1))
    encoder = image_encoder(FRAMES["stacked frames"])
    images, scaled = pixels_of(FRAMES["stacked frames"], 19)
    assert encoder._chunk_size(on_gpu=False) == encoders.ROW_MULTIPLE
    assert_close_to_float64(encoder, scaled, encoder(images))


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["mlp", *FRAMES])
def test_equal_observations_of_a_batch_are_equal_to_the_last_bit_on_a_gpu(name: str) -> None:
    space = FRAMES.get(name, spaces.Box(-1, 1, (15,)))
    encoder = make_encoder(space, embedding_size=6).cuda()
    batch = samples(space, 200).cuda()
    batch[3] = batch[77] = batch[-1] = batch[150]
    embeddings = encoder(batch)
    assert torch.equal(embeddings[[3, 77, -1]], embeddings[150].expand(3, -1))
    torch.testing.assert_close(embeddings[150], encoder(batch[150:151])[0])


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", ["mlp", *FRAMES])
def test_equal_observations_are_equal_to_the_last_bit_in_batches_of_any_size(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = FRAMES.get(name, spaces.Box(-1, 1, (15,)))
    encoder = make_encoder(space, embedding_size=6)
    # Chunks of 32, so that batches end before, at and behind the end of a chunk.
    monkeypatch.setattr(encoders, "VECTORS_PER_CHUNK", (32, 32))
    monkeypatch.setattr(encoders, "NUMBERS_PER_CHUNK", (32 * getattr(encoder, "largest_size", 1),) * 2)
    others = samples(space, 70)
    observation = samples(space, 1, seed=1)[0]
    expected = encoder(observation[None])[0]
    for size in range(1, 71):
        batch = others[:size].clone()
        batch[size // 2] = batch[-1] = observation
        embeddings = encoder(batch)
        assert torch.equal(embeddings[size // 2], expected)
        assert torch.equal(embeddings[-1], expected)


@pytest.mark.parametrize("size", [1, 8, 9, 33])
def test_networks_see_no_fewer_rows_than_intels_usual_kernels_take(size: int) -> None:
    encoder = make_encoder(spaces.Box(-1, 1, (300,)), embedding_size=6)
    assert isinstance(encoder, SpaceEncoder)
    rows: list[int] = []
    encoder.network.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))
    assert len(encoder(torch.zeros(size, 300))) == size
    assert rows == [-(-size // 16) * 16]


def few_and_many_rows_are_rounded_alike(layer: nn.Module, many: int) -> bool:
    """Whether this machine multiplies a row by the same kernel in batches of both sizes."""
    assert isinstance(layer, nn.Linear)
    row = torch.randn(1, layer.in_features, generator=torch.Generator().manual_seed(0))
    few, many_rows = (layer(row.repeat(size, 1)) for size in (encoders.ROW_MULTIPLE, many))
    return torch.equal(few, many_rows[: len(few)])


@pytest.mark.parametrize("shape", [(4, 84, 84), (84, 84, 3)])
def test_equal_frames_are_equal_to_the_last_bit_around_the_end_of_a_chunk(shape: tuple[int, ...], threads: int) -> None:
    encoder = make_encoder(spaces.Box(0, 255, shape, np.uint8), embedding_size=128)
    assert isinstance(encoder, ImageEncoder)
    chunk = encoder._chunk_size(on_gpu=False)
    if threads > 1 and not few_and_many_rows_are_rounded_alike(encoder.network[10], chunk):
        pytest.skip("on this CPU (Intel's), products by several threads are rounded by the number of rows")
    generator = torch.Generator().manual_seed(0)
    frame = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    expected = encoder(frame[None])
    for size in (chunk - 1, chunk, chunk + 1):
        assert torch.equal(encoder(frame.expand(size, *shape)), expected.expand(size, -1))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["image", "vector", "dict", *FRAMES])
def test_a_gpu_gives_the_numbers_of_the_cpu(name: str) -> None:
    space = (SPACES | FRAMES)[name]
    encoder, observations = make_encoder(space, embedding_size=32), samples(space, 300)
    expected = encoder(observations)
    embeddings = encoder.cuda()(observations)
    assert embeddings.is_cuda
    torch.testing.assert_close(embeddings.cpu(), expected, rtol=0, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("kind", ["image", "vector"])
def test_the_initialisation_of_torch_is_that_of_its_layers(kind: str) -> None:
    """Every weight and bias is uniform within the bounds of `reset_parameters`, and drawn from the seed."""
    torch.manual_seed(0)
    encoder = make_encoder(SPACES[kind], embedding_size=64, seed=3, init="torch")
    same = make_encoder(SPACES[kind], embedding_size=64, seed=3, init="torch")
    for layer, other in zip(layers(encoder), layers(same), strict=True):
        if not isinstance(layer, nn.Conv2d | nn.Linear):
            continue
        assert torch.equal(layer.weight, other.weight)
        theirs = deepcopy(layer)
        theirs.reset_parameters()
        bound = 1 / layer.weight[0].numel() ** 0.5
        for ours, reference in ((layer.weight, theirs.weight), (layer.bias, theirs.bias)):
            assert ours.abs().max() <= bound
            assert ours.unique().numel() > 0.9 * ours.numel()
            assert ours.detach().std() == pytest.approx(bound / 3**0.5, rel=0.4)
            assert reference.detach().std() == pytest.approx(bound / 3**0.5, rel=0.4)
        assert not torch.equal(layer.weight, theirs.weight), "the global generator is not used"


def test_the_initialisation_has_a_name() -> None:
    with pytest.raises(ValueError, match="init must be 'orthogonal' or 'torch', got 'xavier'"):
        make_encoder(VECTOR, embedding_size=4, init="xavier")  # type: ignore[arg-type]
    default, orthogonal, other = (
        make_encoder(VECTOR, embedding_size=4, **arguments)
        for arguments in ({}, {"init": "orthogonal"}, {"init": "torch"})
    )
    points = samples(VECTOR, 8)
    assert torch.equal(default(points), orthogonal(points))
    assert not torch.equal(default(points), other(points))
