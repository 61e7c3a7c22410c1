"""Gradients of convolutions in our kernel, against torch's: in Triton's interpreter where there is no GPU."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton", reason="Triton is not made for this system")

from revd.sb3.fast import convolutions
from revd.sb3.fast.convolutions import OrderedGradients

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def _exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def found_for(layer: nn.Module, images: Tensor, **options: bool) -> tuple[Tensor, ...]:
    """Gradients of the images, if they ask for one, and of the parameters."""
    torch.manual_seed(1)
    outputs = layer(images)
    wanted = [tensor for tensor in (images, *layer.parameters()) if tensor.requires_grad]
    return torch.autograd.grad(outputs, wanted, torch.randn_like(outputs), **options)


def layer_and_images(
    shape: tuple[int, ...], outputs: int, *, learning: bool = True, **options: Any
) -> tuple[Any, Tensor]:
    torch.manual_seed(0)
    layer = nn.Conv2d(shape[1], outputs, **options).to(DEVICE, memory_format=torch.channels_last)
    images = torch.randn(shape, device=DEVICE).contiguous(memory_format=torch.channels_last)
    return layer, images.requires_grad_(learning)


@pytest.mark.parametrize("at_once", [(16, 32), (32, 64)], ids=["small tiles", "large tiles"])
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
    shape: tuple[int, ...],
    outputs: int,
    options: dict[str, Any],
    learning: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(convolutions, "ROWS", at_once[0])
    monkeypatch.setattr(convolutions, "COLUMNS", at_once[1])
    used = Mock(wraps=convolutions.gradients)
    monkeypatch.setattr(convolutions, "gradients", used)
    layer, images = layer_and_images(shape, outputs, learning=learning, **options)
    expected = found_for(layer, images)
    with OrderedGradients():
        found = found_for(layer, images)
    used.assert_called_once()
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        assert ours.ndim < 4 or ours.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "options",
    [{"padding": 1}, {"dilation": 2}, {"groups": 2}, {"dtype": torch.float64}],
    ids=lambda options: next(iter(options)),
)
def test_others_are_left_to_torch(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "gradients", Mock(side_effect=AssertionError))
    layer, images = layer_and_images((2, 4, 7, 7), 6, kernel_size=3, **options)
    images = images.detach().to(options.get("dtype", torch.float32)).requires_grad_()
    expected = found_for(layer, images)
    with OrderedGradients():
        found = found_for(layer, images)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_frozen_weights_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolutions, "gradients", Mock(side_effect=AssertionError))
    layer, images = layer_and_images((2, 4, 7, 7), 6, kernel_size=3)
    layer.weight.requires_grad_(False)
    expected = found_for(layer, images)
    with OrderedGradients():
        found = found_for(layer, images)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("limit", [0, -1], ids=["at the limit", "beyond it"])
def test_only_small_ones_are_ours(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, images = layer_and_images((2, 4, 7, 7), 6, kernel_size=3)
    multiplications = (2 * 6 * 5 * 5) * (4 * 3 * 3)
    monkeypatch.setattr(convolutions, "LARGEST_WORK", multiplications + limit)
    used = Mock(wraps=convolutions.gradients)
    monkeypatch.setattr(convolutions, "gradients", used)
    with OrderedGradients():
        found_for(layer, images)
    assert used.called == (limit == 0)
