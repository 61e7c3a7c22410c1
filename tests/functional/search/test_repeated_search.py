"""The search among repeated states, against loops over all of them."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from revd.functional import visible_distances
from revd.functional.search import repeated_distances
from revd.functional.search import repeated_search as module
from tests.support import naive


def few_states(generator: torch.Generator, *shape: int) -> Tensor:
    """Points of which only six are distinct, at distances that tie often."""
    return torch.randint(0, 6, (*shape, 1), generator=generator) * torch.tensor([1.0, -2.0, 0.5])


def ascending(generator: torch.Generator, b: int, p: int, m: int) -> Tensor:
    """Numbers of visible rows that never fall, but for padding at the end of each batch."""
    limits = torch.randint(0, m + 1, (b, p), generator=generator).sort(dim=1).values
    lengths = torch.randint(0, p + 1, (b, 1), generator=generator)
    return limits.masked_fill(torch.arange(p) >= lengths, 0)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(b=st.integers(1, 3), p=st.integers(13, 20), m=st.integers(1, 20), k=st.integers(1, 9), seed=st.integers(0, 999))
def test_distances_equal_naive_loops(b: int, p: int, m: int, k: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x, y = few_states(generator, b, p), few_states(generator, b, m)
    visible = ascending(generator, b, p, m)
    found = not_none(repeated_distances(x, y, visible, k))
    for batch, point in np.ndindex(b, p):
        seen = y[batch, : int(visible[batch, point])].numpy()
        expected = [naive.nu(j, x[batch, point].numpy(), seen) for j in range(1, k + 1)]
        np.testing.assert_allclose(found[batch, point], expected, rtol=1e-6)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_distance_that_is_no_number_is_never_near(value: float) -> None:
    x = torch.zeros(1, 4, 1)
    y = torch.tensor([value, value, 3.0, 3.0])[None, :, None]
    found = not_none(repeated_distances(x, y, torch.tensor([[1, 2, 3, 4]]), 2))
    assert found.tolist() == [[[torch.inf] * 2, [torch.inf] * 2, [3, torch.inf], [3, 3]]]


@pytest.mark.parametrize(
    ("x", "visible", "settings"),
    [
        pytest.param([1.0, 2.0, 3.0, 1.0], [1, 2, 3, 4], {}, id="too few repeat"),
        pytest.param([1.0, 1.0, 1.0, 1.0], [1, 3, 2, 4], {}, id="a point sees less than the one before"),
        pytest.param([1.0, 1.0, 1.0, 1.0], [1, 2, 3, 4], {"LARGEST_TABLE": 7}, id="too many states"),
    ],
)
def test_other_searches_are_left_to_the_search_in_tiles(
    x: list[float], visible: list[int], settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setattr(module, name, value)
    points, states = torch.tensor(x)[None, :, None], torch.tensor([1.0, 1.0, 2.0, 2.0])[None, :, None]
    limits = torch.tensor([visible])
    assert repeated_distances(points, states, limits, 2) is None
    found = visible_distances(points, states, k=2, visible=limits)
    for point, seen in enumerate(visible):
        assert found[0, point].tolist() == [naive.nu(j, points[0, point], states[0, :seen]) for j in (1, 2)]


def test_points_of_which_only_the_first_numbers_repeat_are_left_to_the_search_in_tiles() -> None:
    x = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 1.0]])[None]
    assert repeated_distances(x, x, torch.tensor([[0, 1, 2, 3]]), 2) is None


def test_the_causal_search_uses_it_where_states_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("revd.functional.neighbors.nearest_distances", lambda *_: [torch.full((2, 20, 3), -1.0)])
    x = few_states(torch.Generator().manual_seed(0), 2, 20)
    visible = torch.arange(20).expand(2, -1)
    assert torch.equal(visible_distances(x, x, k=3, visible=visible), not_none(repeated_distances(x, x, visible, 3)))
    monkeypatch.setattr(module, "LARGEST_SHARE", 0.0)
    assert (visible_distances(x, x, k=3, visible=visible) == -1).all()


def not_none(found: Tensor | None) -> Tensor:
    assert found is not None
    return found


def test_torchs_default_device_does_not_matter() -> None:
    x = few_states(torch.Generator().manual_seed(0), 2, 20)
    visible = torch.arange(20).expand(2, -1)
    expected = repeated_distances(x, x, visible, 3)
    with torch.device("meta"):
        assert torch.equal(not_none(repeated_distances(x, x, visible, 3)), not_none(expected))
