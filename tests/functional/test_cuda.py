"""Both searches on a GPU: precision, agreement, launches, CUDA graphs, memory."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from torch.profiler import ProfilerActivity, profile

import revd
from revd.functional.search import ReferenceSet, torch_search
from tests.support.clouds import KINDS, assert_exact, clouds, searches

pytest.importorskip("triton", reason="Triton is not made for this system")

from revd.functional.search import triton_search

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU, which this machine has not")


def on_gpu(reference: ReferenceSet) -> ReferenceSet:
    columns, visible, own = (part if part is None else part.cuda() for part in reference[:3])
    assert columns is not None
    return ReferenceSet(columns, visible, own, reference.same_points)


# Few dimensions and k: each pair compiles its own kernels.
@settings(derandomize=True, max_examples=80, deadline=None)
@given(search=searches(n=300, m=700, d=(1, 128, 512), k=(1, 5, 32)))
def test_every_distance_is_that_of_a_direct_search(search):
    x, references, k = search[0].cuda(), [on_gpu(reference) for reference in search[1]], search[2]
    for reference, found in zip(references, triton_search.nearest_distances(x, references, k), strict=True):
        assert_exact(found, x, reference, k)
        assert_exact(torch_search.nearest_distances(x, [reference], k)[0], x, reference, k)


@pytest.mark.parametrize("kind", KINDS)
def test_long_episodes(kind):
    x, y = clouds(kind, 5000, 128, 0, batches=1).cuda(), clouds(kind, 3000, 128, 1, batches=1).cuda()
    own, previous = revd.episode_distances(x, y, k=5)
    for found, reference in ((own, ReferenceSet(x, same_points=True)), (previous, ReferenceSet(y))):
        rows = torch.arange(0, 5000, 50)
        some = reference._replace(own=rows[None].cuda() if reference.same_points else None, same_points=False)
        assert_exact(found[:, rows], x[:, rows], some, 5)


@pytest.fixture
def tf32():
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize("kind", KINDS)
def test_reduced_precision_of_products_changes_nothing(kind):
    x = clouds(kind, 500, 64, 0).cuda()
    reference = ReferenceSet(x, same_points=True)
    assert_exact(torch_search.nearest_distances(x, [reference], 3)[0], x, reference, 3)
    assert_exact(triton_search.nearest_distances(x, [reference], 3)[0], x, reference, 3)


@pytest.mark.parametrize("d", [1, 4, 32, 128, 300])
@pytest.mark.parametrize("k", [1, 5])
def test_numbers_whose_halves_leave_the_largest_residue(d, k):
    """The points are columns themselves, and products see them as far away as k + 4 others."""
    x = torch.full((1, 1, d), 1 + 2**-8 - 2**-17 - 2**-23, device="cuda")
    half = torch.cat([x, torch.ones_like(x).expand(1, k + 4, d), 0.5 * torch.ones_like(x).expand(1, 27 - k, d)], dim=1)
    reference = ReferenceSet(torch.cat([half, -half], dim=1))
    assert_exact(triton_search.nearest_distances(x, [reference], k)[0], x, reference, k)


@pytest.mark.parametrize("d", [32, 128])
def test_most_rows_of_a_walk_are_proven(d):
    x = clouds("walk", 2000, d, 0).cuda()
    found = triton_search.search_counting_unproven(x, [ReferenceSet(x, same_points=True)], 5)
    assert_exact(found.distances[0], x, ReferenceSet(x, same_points=True), 5)
    assert int(found.unproven) < 200


@pytest.mark.filterwarnings("ignore:.*Profiler clears events at the end of each cycle:UserWarning")
def test_a_small_batch_is_three_launches_and_fits_into_a_graph():
    x, y = torch.randn(10, 256, 128, device="cuda"), torch.randn(10, 256, 128, device="cuda")
    revd.episode_distances(x, y, k=5)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        revd.episode_distances(x, y, k=5)
        torch.cuda.synchronize()
    launched = [event.key for event in profiler.key_averages() if event.device_time_total > 0]
    assert sorted(launched) == ["prepare", "search", "search_again"]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        own, previous = revd.episode_distances(x, y, k=5)
    x.copy_(torch.randn_like(x))
    y.copy_(torch.randn_like(y))
    graph.replay()
    assert_exact(own, x, ReferenceSet(x, same_points=True), 5)
    assert_exact(previous, x, ReferenceSet(y), 5)


def test_a_hundred_thousand_states_in_bounded_memory():
    x = torch.randn(100_000, 128, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    found = revd.neighbor_distances(x, k=5)
    assert torch.cuda.max_memory_allocated() - before < 0.02 * 4 * len(x) ** 2
    rows = torch.arange(0, 100_000, 5000)
    some = ReferenceSet(x[None], own=rows[None].cuda())
    assert_exact(found[None, rows], x[None, rows], some, 5)
