"""The Triton kernels in Triton's interpreter, on the CPU: indices, masks, bookkeeping.

The interpreter multiplies the halves of numbers in full precision, so what tensor cores make of them is tested on a
GPU, in `test_cuda.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from revd.functional.search import ReferenceSet
from tests.support.clouds import assert_exact, clouds, exact, searches

pytest.importorskip("triton", reason="Triton is not made for this system")

from revd.functional.search import triton_kernels, triton_search

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU the kernels themselves are tested")


@settings(derandomize=True, max_examples=10, deadline=None)
@given(search=searches(n=70, m=100, d=(1, 3, 16, 130), k=(1, 2, 5, 8)))
def test_every_distance_is_that_of_a_direct_search(search):
    x, references, k = search
    assert triton_search.can_search(x.shape, references, k)
    for reference, found in zip(references, triton_search.nearest_distances(x, references, k), strict=True):
        assert_exact(found, x, reference, k)


@pytest.mark.parametrize("d", [1, 128, 512])
def test_many_neighbours(d):
    x, y = clouds("spread", 20, d, 0, batches=1), clouds("spread", 70, d, 1, batches=1)
    found = triton_search.search_counting_unproven(x, [ReferenceSet(y)], triton_search.LARGEST_K)
    assert_exact(found.distances[0], x, ReferenceSet(y), triton_search.LARGEST_K)


def test_well_separated_points_need_no_second_search():
    x, y = clouds("spread", 70, 32, 0, batches=1), clouds("spread", 130, 32, 1, batches=1)
    limits = torch.full((1, 70), 50).masked_fill(torch.arange(70) >= 60, 0)
    for visible in (None, limits):
        references = [ReferenceSet(x, visible, same_points=True), ReferenceSet(y, visible)]
        assert int(triton_search.search_counting_unproven(x, references, 3).unproven) == 0


def test_points_without_a_proof_are_searched_again(monkeypatch: pytest.MonkeyPatch):
    x = clouds("regions", 70, 32, 0, batches=1)
    reference = ReferenceSet(x, same_points=True)
    found = triton_search.search_counting_unproven(x, [reference], 3)
    assert int(found.unproven) == 70, "the regions are so far apart that the product says nothing about neighbours"
    assert_exact(found.distances[0], x, reference, 3)

    class Nothing:
        def __getitem__(self, grid):
            return lambda **arguments: None

    monkeypatch.setattr(triton_kernels, "search_again", Nothing())
    error = triton_search.nearest_distances(x, [reference], 3)[0].numpy() / exact(x, reference, 3) - 1
    assert np.abs(error).max() > 1e-3, "without the second search they come out wrong"


def test_the_second_search_sees_what_the_first_one_sees():
    x, y, z = clouds("regions", 120, 16, 0).split([30, 40, 50], dim=1)
    generator = torch.Generator().manual_seed(0)
    limits = [torch.randint(32, n, (2, 30), generator=generator) for n in (40, 50)]
    own = torch.arange(30).expand(2, -1)
    references = [ReferenceSet(y, limits[0], own=own), ReferenceSet(z, limits[1])]
    found = triton_search.search_counting_unproven(x, references, 2)
    assert int(found.unproven) == 120
    for distances, reference in zip(found.distances, references, strict=True):
        assert_exact(distances, x, reference, 2)


@pytest.mark.parametrize("d", [1, 4, 32])
@pytest.mark.parametrize("k", [1, 5])
def test_numbers_whose_halves_leave_the_largest_residue(d, k):
    """The point is a column itself, and products see it as far away as k + 4 others."""
    x = torch.full((1, 1, d), 1 + 2**-8 - 2**-17 - 2**-23)
    half = torch.cat([x, torch.ones(1, k + 4, d), torch.full((1, 27 - k, d), 0.5)], dim=1)
    reference = ReferenceSet(torch.cat([half, -half], dim=1))
    assert_exact(triton_search.nearest_distances(x, [reference], k)[0], x, reference, k)


def test_neighbours_of_one_class_are_searched_again():
    """Five equally far columns with the same place in their tiles are more than a class keeps."""
    y = 100 * clouds("spread", 5 * triton_search.COLUMNS, 4, 0, batches=1)
    y[0, 7 :: triton_search.COLUMNS] = torch.eye(5)[:, :4] + 0.01 * torch.arange(5)[:, None]
    x = torch.zeros(1, 1, 4)
    found = triton_search.search_counting_unproven(x, [ReferenceSet(y)], 5)
    assert int(found.unproven) == 1
    assert_exact(found.distances[0], x, ReferenceSet(y), 5)


def test_garbage_in_padding_reaches_nothing():
    x = clouds("spread", 60, 8, 0)
    limits = torch.full((2, 60), 40).masked_fill(torch.arange(60) >= 40, 0)
    spoilt = x.clone()
    spoilt[:, 40:] = torch.nan
    found = triton_search.nearest_distances(spoilt, [ReferenceSet(spoilt, limits, same_points=True)], 2)[0]
    assert torch.equal(found, triton_search.nearest_distances(x, [ReferenceSet(x, limits, same_points=True)], 2)[0])
    assert found[:, 40:].isinf().all()


def test_overflow_is_no_proof():
    x = clouds("spread", 40, 4, 0) + torch.where(torch.arange(40) % 2 == 0, 3e19, -3e19)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        found = triton_search.nearest_distances(x, [ReferenceSet(x, same_points=True)], 2)[0]
    assert_exact(found, x, ReferenceSet(x, same_points=True), 2)


def test_nan_is_no_neighbour():
    x = clouds("spread", 40, 8, 0)
    x[:, 30] = torch.nan
    with np.errstate(invalid="ignore"):
        found = triton_search.nearest_distances(x, [ReferenceSet(x, same_points=True)], 2)[0]
    keep = torch.arange(40) != 30
    assert_exact(found[:, keep], x[:, keep], ReferenceSet(x[:, keep], same_points=True), 2)
    assert found[:, 30].isinf().all()


@pytest.mark.parametrize("shape", [(0, 5, 3), (2, 0, 3)])
def test_no_points_have_no_neighbours(shape):
    x = torch.zeros(shape)
    references = [ReferenceSet(torch.zeros(shape[0], 4, 3)), ReferenceSet(torch.zeros(shape[0], 6, 3))]
    assert [found.shape for found in triton_search.nearest_distances(x, references, 2)] == 2 * [(*shape[:2], 2)]


def test_points_need_not_be_contiguous():
    x = clouds("spread", 30, 8, 0).mT.contiguous().mT
    assert_exact(
        triton_search.nearest_distances(x, [ReferenceSet(x, same_points=True)], 2)[0],
        x,
        ReferenceSet(x, same_points=True),
        2,
    )
