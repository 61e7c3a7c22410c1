"""The choice of the search's backend."""

from __future__ import annotations

import pytest
import torch

from revd.functional.search import ReferenceSet, dispatch, torch_search
from tests.support.clouds import assert_exact, clouds

pytest.importorskip("triton", reason="Triton is not made for this system")

from revd.functional.search import triton_search

X = torch.zeros(1, 4, 2)
CUDA = torch.device("cuda")


def test_the_cpu_has_tiles_of_torch():
    assert dispatch.choose_backend(torch.device("cpu"), X.shape, [ReferenceSet(X)], 1) is torch_search


def test_cuda_has_the_fused_search(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dispatch, "triton_works", lambda device: True)
    assert (
        dispatch.choose_backend(CUDA, X.shape, [ReferenceSet(X, same_points=True), ReferenceSet(X)], 1) is triton_search
    )
    assert dispatch.choose_backend(CUDA, X.shape, [ReferenceSet(X)], triton_search.LARGEST_K) is triton_search


@pytest.mark.parametrize(
    ("references", "k"),
    [
        ([ReferenceSet(X)] * 3, 1),
        ([ReferenceSet(X), ReferenceSet(X, same_points=True)], 1),
        ([ReferenceSet(X)], triton_search.LARGEST_K + 1),
    ],
    ids=["three references", "own points in the second", "k"],
)
def test_what_the_kernels_are_not_made_for_goes_to_torch(references, k, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dispatch, "triton_works", lambda device: True)
    assert dispatch.choose_backend(CUDA, X.shape, references, k) is torch_search


def test_every_set_is_searched():
    x, y = clouds("walk", 50, 8, 0), clouds("walk", 30, 8, 1)
    references = [ReferenceSet(x, same_points=True), ReferenceSet(y), ReferenceSet(x)]
    for reference, found in zip(references, dispatch.nearest_distances(x, references, 3), strict=True):
        assert_exact(found, x, reference, 3)
