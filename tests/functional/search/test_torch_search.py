"""The search in plain torch against direct differences: candidates, proofs, and rows that must be searched again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from revd.functional.search import ReferenceSet, nearest_distances, torch_search
from tests.support.clouds import assert_exact, clouds, exact, searches


def searched_again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of each tile had no proof."""
    counts: list[int] = []
    original = torch_search._search_rows_directly

    def counting(distances, rows, *rest):
        counts.append(int(rows.sum()))
        return original(distances, rows, *rest)

    monkeypatch.setattr(torch_search, "_search_rows_directly", counting)
    return counts


@settings(derandomize=True, max_examples=200, deadline=None)
@given(search=searches(n=150, m=400, d=(1, 2, 5, 64, 128, 200, 512), k=tuple(range(1, 33))))
def test_every_distance_is_that_of_a_direct_search(search):
    x, references, k = search
    for reference in references:
        assert_exact(torch_search.nearest_distances(x, [reference], k)[0], x, reference, k)


def test_well_separated_points_need_no_second_search(monkeypatch):
    counts = searched_again(monkeypatch)
    torch_search.nearest_distances(clouds("spread", 300, 64, 0), [ReferenceSet(clouds("spread", 300, 64, 1))], 3)
    assert set(counts) == {0}


def test_points_without_a_proof_are_searched_again(monkeypatch):
    counts = searched_again(monkeypatch)
    x = clouds("regions", 400, 64, 0)
    found = torch_search.nearest_distances(x, [ReferenceSet(x, same_points=True)], 3)[0]
    assert sum(counts) == 800, "the regions are so far apart that the product says nothing about neighbours"
    assert_exact(found, x, ReferenceSet(x, same_points=True), 3)


def test_the_proof_is_what_makes_it_right(monkeypatch):
    """Without the second search the same points come out wrong, so the test above could fail."""
    monkeypatch.setattr(torch_search, "_search_rows_directly", lambda distances, *rest: distances)
    x = clouds("regions", 400, 64, 0)
    error = (
        torch_search.nearest_distances(x, [ReferenceSet(x, same_points=True)], 3)[0].numpy()
        / exact(x, ReferenceSet(x, same_points=True), 3)
        - 1
    )
    assert np.abs(error).max() > 1e-3


def test_nothing_is_nearer_than_a_duplicate(monkeypatch):
    """Where k duplicates are found there is nothing to prove, however many more there are."""
    counts = searched_again(monkeypatch)
    x = clouds("spread", 20, 8, 0).repeat(1, 12, 1)
    assert not torch_search.nearest_distances(x, [ReferenceSet(x, same_points=True)], 4)[0].any()
    assert sum(counts) == 0


@pytest.mark.parametrize("hidden", ["last", "half", "future"])
def test_hidden_columns_take_no_proof_away(hidden, monkeypatch):
    """Near-duplicates far from the origin: a hidden column must not stand there."""
    counts = searched_again(monkeypatch)
    x = clouds("walk", 500, 64, 0)
    limits = {
        "last": torch.full((2, 500), 499),
        "half": torch.full((2, 500), 250),
        "future": torch.arange(500) + 0 * x[..., 0],
    }
    reference = ReferenceSet(x, limits[hidden].long().expand(2, 500), same_points=True)
    assert_exact(torch_search.nearest_distances(x, [reference], 3)[0], x, reference, 3)
    assert sum(counts) < 20


@pytest.mark.parametrize("d", [1, 8])
def test_what_underflows_proves_nothing(d, monkeypatch):
    counts = searched_again(monkeypatch)
    x = 1e-25 * clouds("spread", 100, d, 0)
    found = torch_search.nearest_distances(x, [ReferenceSet(x, same_points=True)], 1)[0]
    assert not found.any(), "as a direct search has it: squares of such distances are 0 in float32"
    assert sum(counts) == (200 if d == 1 else 0), "one number has a norm, and no square; several have neither"


def test_less_precise_products_are_not_used(monkeypatch):
    counts = searched_again(monkeypatch)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    x = clouds("spread", 100, 8, 0)
    assert_exact(
        torch_search.nearest_distances(x, [ReferenceSet(x, same_points=True)], 2)[0],
        x,
        ReferenceSet(x, same_points=True),
        2,
    )
    assert not counts


def test_precision_set_by_the_newer_api_means_a_direct_search(monkeypatch):
    def mixed() -> str:
        raise RuntimeError("mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", mixed)
    counts = searched_again(monkeypatch)
    x = clouds("walk", 100, 8, 0)
    assert_exact(
        torch_search.nearest_distances(x, [ReferenceSet(x, same_points=True)], 2)[0],
        x,
        ReferenceSet(x, same_points=True),
        2,
    )
    assert not counts


def test_garbage_in_padding_reaches_nothing():
    x = clouds("spread", 60, 8, 0)
    limits = torch.full((2, 60), 40)
    expected = torch_search.nearest_distances(x, [ReferenceSet(x, limits, same_points=True)], 2)[0]
    spoilt = x.clone()
    spoilt[:, 40:] = torch.nan
    found = torch_search.nearest_distances(spoilt, [ReferenceSet(spoilt, limits, same_points=True)], 2)[0]
    assert torch.equal(found[:, :40], expected[:, :40])


def test_autocast_does_not_make_it_wrong():
    x = clouds("spread", 500, 2, 0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = nearest_distances(x, [ReferenceSet(x, same_points=True)], 3)[0]
    assert_exact(found, x, ReferenceSet(x, same_points=True), 3)


def test_overflow_is_no_proof():
    x = clouds("spread", 100, 4, 0) + torch.where(torch.arange(100) % 2 == 0, 3e19, -3e19)[:, None]
    for limits in (None, torch.full((2, 100), 60)):
        reference = ReferenceSet(x, limits, same_points=True)
        assert_exact(torch_search.nearest_distances(x, [reference], 2)[0], x, reference, 2)


@pytest.mark.parametrize("causal", [False, True])
def test_nan_is_no_neighbour(causal):
    x = clouds("spread", 100, 8, 0)
    x[:, 90] = torch.nan
    limits = torch.arange(100).expand(2, -1) if causal else torch.full((2, 100), 95)
    found = torch_search.nearest_distances(x, [ReferenceSet(x, limits, same_points=True)], 2)[0].numpy()
    assert np.isinf(found[:, 90]).all()
    found = found[:, :90]
    without = x.clone()
    without[:, 90] = 1e6
    np.testing.assert_allclose(
        found, exact(without, ReferenceSet(without, limits, same_points=True), 2)[:, :90], rtol=1e-5
    )
