"""The certified search against direct differences: candidates, proofs, and rows that must be searched again."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from revd.functional.nearest import GROUP, SPARE, nearest

module = sys.modules[nearest.__module__]


def direct(x: Tensor, y: Tensor, k: int, visible: Tensor | None, skip_own: bool) -> np.ndarray:
    """All distances in float64, sorted."""
    distances = (x.double()[:, :, None] - y.double()[:, None]).norm(dim=-1)
    if skip_own:
        distances.diagonal(dim1=1, dim2=2).fill_(torch.inf)
    if visible is not None:
        distances.masked_fill_(torch.arange(y.shape[1]) >= visible[..., None], torch.inf)
    return distances.sort(dim=-1).values[..., :k].numpy()


def itself(x: Tensor) -> Tensor:
    """Every point's own column in a search among the points themselves."""
    return torch.arange(x.shape[1]).expand(len(x), -1)


def searched_again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of each tile had no proof."""
    counts: list[int] = []
    original = module._search_rows

    def counting(distances, rows, *rest):
        counts.append(int(rows.sum()))
        return original(distances, rows, *rest)

    monkeypatch.setattr(module, "_search_rows", counting)
    return counts


def clouds(kind: str, n: int, d: int, seed: int, batches: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(batches, n, d, generator=generator)
    if kind == "spread":
        return noise
    if kind == "walk":
        return torch.nn.functional.layer_norm(noise[:, :1], (d,)) + 1e-3 * noise.cumsum(dim=1)
    if kind == "regions":
        places = 1e3 * torch.randn(batches, 4, d, generator=generator)
        return places[:, torch.arange(n) % 4] + 1e-2 * noise
    if kind == "duplicates":
        return noise[:, torch.randint(0, max(n // 3, 1), (n,), generator=generator)]
    if kind == "constant":
        return torch.full_like(noise, 3.7)
    return 10.0 ** float(kind) * noise


KINDS = ["spread", "walk", "regions", "duplicates", "constant", "-6", "6"]


@settings(derandomize=True, max_examples=120, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(2, 150),
    m=st.integers(1, 400),
    d=st.sampled_from([1, 2, 5, 64, 128]),
    k=st.integers(1, 6),
    own=st.booleans(),
    ragged=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_every_distance_is_that_of_a_direct_search(kind, n, m, d, k, own, ragged, seed):
    x = clouds(kind, n, d, seed)
    y = x if own else clouds(kind, m, d, seed + 1)
    k = min(k, y.shape[1] - own)
    limits = torch.randint(0, y.shape[1] + 1, (2, n), generator=torch.Generator().manual_seed(seed)) if ragged else None
    found = nearest(x, y, k, visible=limits, own=itself(x) if own else None).numpy()
    expected = direct(x, y, k, limits, own)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-5)
    np.testing.assert_array_equal(found[finite & (expected == 0)], 0)


def test_well_separated_points_need_no_second_search(monkeypatch):
    counts = searched_again(monkeypatch)
    nearest(clouds("spread", 300, 64, 0), clouds("spread", 300, 64, 1), 3, visible=None)
    assert counts
    assert sum(counts) == 0


def test_points_without_a_proof_are_searched_again(monkeypatch):
    counts = searched_again(monkeypatch)
    x = clouds("regions", 400, 64, 0)
    found = nearest(x, x, 3, own=itself(x))
    assert sum(counts) == 800, "the regions are so far apart that the product says nothing about neighbours"
    np.testing.assert_allclose(found, direct(x, x, 3, None, True), rtol=1e-5)


def test_the_proof_is_what_makes_it_right(monkeypatch):
    """Without the second search the same points come out wrong, so the test above could fail."""
    monkeypatch.setattr(module, "_search_rows", lambda distances, *rest: distances)
    x = clouds("regions", 400, 64, 0)
    error = nearest(x, x, 3, own=itself(x)).numpy() / direct(x, x, 3, None, True) - 1
    assert np.abs(error).max() > 1e-3


@pytest.mark.parametrize("columns", [GROUP * 2 * (3 + SPARE), GROUP * 2 * (3 + SPARE) + 17])
def test_groups_find_the_smallest_wherever_they_are(columns):
    values = torch.rand(2, 50, columns, generator=torch.Generator().manual_seed(0))
    values[0, 0, -4:] = -1.0
    values[1, 1, :6] = -2.0
    found, where = module._smallest(values, 6)
    assert torch.equal(found.sort(dim=-1).values, values.sort(dim=-1).values[..., :6])
    assert torch.equal(values.gather(-1, where), found)


def test_less_precise_products_are_not_used(monkeypatch):
    counts = searched_again(monkeypatch)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    x = clouds("spread", 100, 8, 0)
    np.testing.assert_allclose(nearest(x, x, 2, own=itself(x)), direct(x, x, 2, None, True), rtol=1e-5)
    assert not counts


def test_garbage_in_padding_reaches_nothing():
    x = clouds("spread", 60, 8, 0)
    limits = torch.full((2, 60), 40)
    expected = nearest(x, x, 2, visible=limits, own=itself(x))
    spoilt = x.clone()
    spoilt[:, 40:] = torch.nan
    found = nearest(spoilt, spoilt, 2, visible=limits, own=itself(x))
    assert torch.equal(found[:, :40], expected[:, :40])


def test_autocast_does_not_make_it_wrong():
    x = clouds("spread", 500, 2, 0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = nearest(x, x, 3, own=itself(x))
    np.testing.assert_allclose(found, direct(x, x, 3, None, True), rtol=1e-5)


def test_precision_set_by_the_newer_api_means_a_direct_search(monkeypatch):
    def mixed() -> str:
        raise RuntimeError("mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", mixed)
    counts = searched_again(monkeypatch)
    x = clouds("walk", 100, 8, 0)
    np.testing.assert_allclose(nearest(x, x, 2, own=itself(x)), direct(x, x, 2, None, True), rtol=1e-5)
    assert not counts


def test_overflow_is_no_proof():
    x = clouds("spread", 100, 4, 0) + torch.where(torch.arange(100) % 2 == 0, 3e19, -3e19)[:, None]
    for limits in (None, torch.full((2, 100), 60)):
        found = nearest(x, x, 2, visible=limits, own=itself(x))
        expected = direct(x, x, 2, limits, True)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_a_nan_is_nobodys_neighbour(causal):
    x = clouds("spread", 100, 8, 0)
    x[:, 90] = torch.nan
    limits = torch.arange(100).expand(2, -1) if causal else torch.full((2, 100), 95)
    found = nearest(x, x, 2, visible=limits, own=itself(x))[:, :90].numpy()
    without = x.clone()
    without[:, 90] = 1e6
    np.testing.assert_allclose(found, direct(without, without, 2, limits, True)[:, :90], rtol=1e-5)
