"""The written-out passes of a perceptron against torch's layers and autograd."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn

from revd.functional.perceptron import Layer, run, run_back

SIZES = [(5, 1), (3, 4, 2), (128, 64, 64, 1)]


def network_of(sizes: tuple[int, ...], dtype: torch.dtype) -> nn.Sequential:
    torch.manual_seed(len(sizes))
    modules = [part for pair in pairwise(sizes) for part in (nn.Tanh(), nn.Linear(*pair))]
    return nn.Sequential(*modules[1:]).to(dtype)


def layers_of(network: nn.Sequential) -> list[Layer]:
    return [Layer(module.weight.detach(), module.bias.detach()) for module in network if isinstance(module, nn.Linear)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("n", [1, 512])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_both_passes_equal_autograd_to_the_last_bit(sizes: tuple[int, ...], n: int, dtype: torch.dtype) -> None:
    network = network_of(sizes, dtype)
    features, by_output = torch.randn(n, sizes[0], dtype=dtype), torch.randn(n, sizes[-1], dtype=dtype)
    expected = network(features)
    expected.backward(by_output)
    layers = layers_of(network)
    gradients = [Layer(*map(torch.empty_like, layer)) for layer in layers]
    passed = run(layers, features)
    kept = copy.deepcopy((passed, by_output))
    run_back(layers, gradients, passed, by_output)
    assert torch.equal(passed[-1], expected.detach())
    found = [tensor for layer in gradients for tensor in layer]
    assert all(torch.equal(one, other.grad) for one, other in zip(found, network.parameters(), strict=True))
    assert all(map(torch.equal, [*passed, by_output], [*kept[0], kept[1]])), "its arguments are as they were"


def test_a_network_that_can_be_checked_by_eye() -> None:
    """y = 5 tanh(3 x + 1) - 2 at x = 0.5, and dy/dx = 15 (1 - tanh^2)."""
    layers = [Layer(torch.tensor([[3.0]]), torch.tensor([1.0])), Layer(torch.tensor([[5.0]]), torch.tensor([-2.0]))]
    gradients = [Layer(*map(torch.empty_like, layer)) for layer in layers]
    passed = run(layers, torch.tensor([[0.5]]))
    run_back(layers, gradients, passed, torch.tensor([[10.0]]))
    hidden = torch.tensor(2.5).tanh()
    torch.testing.assert_close([each.item() for each in passed], [0.5, hidden.item(), (5 * hidden - 2).item()])
    assert [each.item() for each in gradients[1]] == pytest.approx([10 * hidden.item(), 10])
    by_bias = 10 * 5 * (1 - hidden.item() ** 2)
    assert [each.item() for each in gradients[0]] == pytest.approx([0.5 * by_bias, by_bias], rel=1e-5)
