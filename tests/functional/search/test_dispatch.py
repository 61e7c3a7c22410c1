"""Who searches."""

from __future__ import annotations

import pytest
import torch

from revd.functional.search import dispatch, torch_search
from revd.functional.search.reference_set import Target
from tests.support.clouds import assert_exact, clouds

pytest.importorskip("triton", reason="Triton is not made for this system")

from revd.functional.search import triton_search

X = torch.zeros(1, 4, 2)
CUDA = torch.device("cuda")


def test_the_cpu_has_tiles_of_torch():
    assert dispatch.backend(torch.device("cpu"), X.shape, [Target(X)], 1) is torch_search


def test_cuda_has_the_fused_search(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dispatch, "triton_works", lambda device: True)
    assert dispatch.backend(CUDA, X.shape, [Target(X, within=True), Target(X)], 1) is triton_search
    assert dispatch.backend(CUDA, X.shape, [Target(X)], triton_search.LARGEST_K) is triton_search


@pytest.mark.parametrize(
    ("targets", "k"),
    [([Target(X)] * 3, 1), ([Target(X), Target(X, within=True)], 1), ([Target(X)], triton_search.LARGEST_K + 1)],
    ids=["three targets", "own points in the second", "k"],
)
def test_what_the_kernels_are_not_made_for_goes_to_torch(targets, k, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dispatch, "triton_works", lambda device: True)
    assert dispatch.backend(CUDA, X.shape, targets, k) is torch_search


def test_every_target_is_searched():
    x, y = clouds("walk", 50, 8, 0), clouds("walk", 30, 8, 1)
    targets = [Target(x, within=True), Target(y), Target(x)]
    for target, found in zip(targets, dispatch.nearest(x, targets, 3), strict=True):
        assert_exact(found, x, target, 3)
