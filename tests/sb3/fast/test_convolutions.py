"""Gradients of convolutions in our kernel, against torch's: in Triton's interpreter where there is no GPU."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.cond import cond_op

pytest.importorskip("triton", reason="Triton is not made for this system")

from revd.sb3.fast import convolutions

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def ordered() -> convolutions.OrderedGradients:
    return convolutions.OrderedGradients(DEVICE)


def found_for(layer: nn.Module, images: Tensor) -> tuple[Tensor, ...]:
    """Gradients of the images, if they ask for one, and of the parameters."""
    torch.manual_seed(1)
    outputs = layer(images)
    wanted = [tensor for tensor in (images, *layer.parameters()) if tensor.requires_grad]
    return torch.autograd.grad(outputs, wanted, torch.randn_like(outputs))


def layer_and_images(
    shape: tuple[int, ...], outputs: int, *, learning: bool = True, **options: Any
) -> tuple[Any, Tensor]:
    torch.manual_seed(0)
    layer = nn.Conv2d(shape[1], outputs, **options).to(DEVICE, memory_format=torch.channels_last)
    images = torch.randn(shape, device=DEVICE).contiguous(memory_format=torch.channels_last)
    return layer, images.requires_grad_(learning)


@pytest.mark.parametrize("at_once", [(16, 32), (32, 64)], ids=["small tiles", "large tiles"])
@pytest.mark.parametrize("programs", [2, 264], ids=["several rounds of each", "one round of each"])
@pytest.mark.parametrize(
    ("shape", "outputs", "options"),
    [
        ((3, 4, 20, 24), 32, {"kernel_size": 8, "stride": 4}),
        ((2, 3, 9, 11), 20, {"kernel_size": (3, 2), "stride": (2, 1)}),
        ((5, 16, 6, 6), 64, {"kernel_size": 3, "bias": False}),
        ((1, 1, 4, 4), 1, {"kernel_size": 4}),
    ],
    ids=["the first of Nature's", "uneven", "without bias", "one window"],
)
@pytest.mark.parametrize("learning", [True, False], ids=["images learn", "images given"])
def test_they_are_torchs(
    at_once: tuple[int, int],
    programs: int,
    shape: tuple[int, ...],
    outputs: int,
    options: dict[str, Any],
    learning: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(convolutions, "ROWS", at_once[0])
    monkeypatch.setattr(convolutions, "COLUMNS", at_once[1])
    monkeypatch.setattr(convolutions, "PROGRAMS", programs)
    used = Mock(wraps=convolutions.gradients)
    monkeypatch.setattr(convolutions, "gradients", used)
    layer, images = layer_and_images(shape, outputs, learning=learning, **options)
    expected = found_for(layer, images)
    with ordered():
        found = found_for(layer, images)
    used.assert_called_once()
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        assert ours.ndim < 4 or ours.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 6, 3, padding=1),
        nn.Conv2d(4, 6, 3, dilation=2),
        nn.Conv2d(4, 6, 3, groups=2),
        nn.Conv2d(4, 6, 3, dtype=torch.float64),
        nn.Conv2d(4, 129, 3),
        nn.ConvTranspose2d(4, 6, 3),
        nn.Conv1d(4, 6, 3),
        nn.Conv3d(4, 6, 3),
    ],
    ids=["padding", "dilation", "groups", "float64", "many outputs", "transposed", "1D", "3D"],
)
def test_others_are_left_to_torch(layer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "gradients", Mock(side_effect=AssertionError))
    layer.to(DEVICE)
    if layer.weight.ndim == 4:
        layer.to(memory_format=torch.channels_last)
    sizes = (7,) * (layer.weight.ndim - 2)
    images = torch.randn(2, 4, *sizes, dtype=layer.weight.dtype, device=DEVICE, requires_grad=True)
    expected = found_for(layer, images)
    with ordered():
        found = found_for(layer, images)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_so_are_weights_in_another_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "gradients", Mock(side_effect=AssertionError))
    layer, images = layer_and_images((2, 4, 7, 7), 6, kernel_size=3)
    layer.to(memory_format=torch.contiguous_format)
    with ordered():
        _, by_weight, _ = found_for(layer, images)
    assert by_weight.is_contiguous() or by_weight.is_contiguous(memory_format=torch.channels_last)


def test_so_is_a_stride_for_all_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "gradients", Mock(side_effect=AssertionError))
    layer, images = layer_and_images((2, 4, 7, 7), 6, kernel_size=3)
    found = []
    for watched in (ordered(), nullcontext()):
        with watched:
            outputs = torch.convolution(images, layer.weight, None, [2], [0], [1], False, [0], 1)
            found.append(torch.autograd.grad(outputs.sum(), (images, layer.weight)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_so_are_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "gradients", Mock(side_effect=AssertionError))
    layer, images = layer_and_images((2, 4, 7, 7), 6, kernel_size=3)
    with convolutions.OrderedGradients(torch.device("meta")):
        assert len(found_for(layer, images)) == 3


def test_frozen_weights_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "gradients", Mock(side_effect=AssertionError))
    layer, images = layer_and_images((2, 4, 7, 7), 6, kernel_size=3)
    layer.weight.requires_grad_(False)
    expected = found_for(layer, images)
    with ordered():
        found = found_for(layer, images)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("limit", [0, -1], ids=["at the limit", "beyond it"])
def test_only_small_ones_are_ours(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, images = layer_and_images((2, 4, 7, 7), 6, kernel_size=3)
    multiplications = (2 * 5 * 5) * 16 * 64  # outputs and columns are filled up
    monkeypatch.setattr(convolutions, "LARGEST_WORK", multiplications + limit)
    used = Mock(wraps=convolutions.gradients)
    monkeypatch.setattr(convolutions, "gradients", used)
    with ordered():
        found_for(layer, images)
    assert used.called == (limit == 0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of importing its compiler
def test_higher_order_operators_pass() -> None:
    with ordered():
        found = cond_op(torch.tensor(True), torch.sin, torch.cos, (torch.zeros(2),))
    assert torch.equal(found, torch.zeros(2))
