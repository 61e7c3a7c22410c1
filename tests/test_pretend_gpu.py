"""The stand-in for a GPU refuses what a GPU would refuse, and counts what its host would wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton", reason="Triton is not made for this system")

if torch.cuda.is_available():
    pytest.skip("there is a GPU, which knows the rules itself", allow_module_level=True)

from revd.functional.search import triton_kernels
from tests.support.pretend_gpu import CPU, CUDA, MixedError, PretendGpu


@pytest.fixture
def gpu() -> Iterator[PretendGpu]:
    with PretendGpu().present() as found:
        yield found


def test_what_is_made_moved_or_computed_there_is_there(gpu: PretendGpu) -> None:
    far, near = torch.zeros(3, device="cuda"), torch.zeros(3)
    layer = nn.Linear(3, 2).to("cuda")
    learning = far.clone().requires_grad_()
    learning.square().sum().backward()
    there = [far, far + 1, far[1:], far.new_zeros(2), near.to("cuda"), layer.weight, layer(far), learning.grad]
    assert [tensor.device for tensor in there] == [CUDA] * len(there)
    assert [tensor.device for tensor in (near, near + 1, far.cpu(), near.copy_(far))] == [CPU] * 4
    assert torch.cuda.is_available()


def test_the_two_sides_have_memory_of_their_own(gpu: PretendGpu) -> None:
    near = torch.zeros(3)
    far = near.to("cuda")
    far += 1
    assert near.sum() == 0
    assert far.cpu().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "work",
    [
        lambda far, near: far + near,
        lambda far, near: torch.stack([far.sum(), near.sum()]),
        lambda far, near: far.index_select(0, near.long()),
        lambda far, near: near[far.long()],
        lambda far, near: far.__setitem__(far.long(), near),
        lambda far, near: nn.functional.linear(far, near[None]),
        lambda far, near: triton_kernels.write_zero[(1,)](near),
        lambda far, near: torch.equal(far, near),
        lambda far, near: near.sum().add_(far.sum()),
        lambda far, near: torch.add(far.sum(), 1, out=near.sum()),
        lambda far, near: torch.randn(3, device="cuda", generator=torch.Generator()),
    ],
    ids=[
        "a sum",
        "a stack of numbers",
        "rows",
        "indices",
        "a value",
        "a layer",
        "a kernel",
        "a comparison",
        "a number in place",
        "a number as output",
        "a generator",
    ],
)
def test_they_do_not_meet(gpu: PretendGpu, work: Callable[[Tensor, Tensor], Any]) -> None:
    with pytest.raises(MixedError):
        work(torch.zeros(3, device="cuda"), torch.zeros(3))


def test_what_is_made_of_numbers_is_the_hosts(gpu: PretendGpu) -> None:
    far = torch.zeros(3, device="cuda")
    assert torch.tensor([far[0], far[1]]).device == CPU
    assert torch.as_tensor(far).device == CUDA
    assert torch.zeros(3, device="meta").device.type == "meta"


def test_arrays_are_of_the_host(gpu: PretendGpu) -> None:
    far = torch.zeros(3, device="cuda")
    for convert in (Tensor.numpy, np.asarray):
        with pytest.raises(TypeError, match="can't convert"):
            convert(far)


@pytest.mark.parametrize(
    ("work", "waits"),
    [
        (lambda far, near: float(far.sum()), 1),
        (lambda far, near: bool((far > 0).any()), 1),
        (lambda far, near: far[far > 0], 1),
        (lambda far, near: far[near.long()], 1),
        (lambda far, near: far.cpu(), 1),
        (lambda far, near: near.to("cuda"), 1),
        (lambda far, near: far.copy_(near), 1),
        (lambda far, near: torch.tensor([1.0], device="cuda"), 1),
        (lambda far, near: torch.tensor([far[0], far[1]]), 2),
        (lambda far, near: torch.where(far > 0), 1),
        (lambda far, near: far[[0, 1]], 1),
        (lambda far, near: far[far.argmax()], 1),
        (lambda far, near: f"{far.sum()}", 1),
        (lambda far, near: far.__setitem__(far > 0, 1.0), 0),
        (lambda far, near: far[1:].add_(near.sum()), 0),
        (lambda far, near: near.to("cuda", non_blocking=True), 0),
        (lambda far, near: near.copy_(far, non_blocking=True), 0),
        (lambda far, near: torch.where(far > 0, far * near.sum(), 0.0)[1:].sum(), 0),
        (lambda far, near: near[near > 0].tolist(), 0),
        (lambda far, near: triton_kernels.write_zero[(1,)](far), 0),
        (lambda far, near: torch.cuda.current_stream().synchronize(), 1),
    ],
)
def test_the_host_waits_for_numbers_and_for_copies(
    gpu: PretendGpu, work: Callable[[Tensor, Tensor], Any], waits: int
) -> None:
    far, near = torch.zeros(3, device="cuda"), torch.zeros(3)
    work(far, near)
    assert len(gpu.waits) == waits


def test_waits_can_be_forbidden(gpu: PretendGpu) -> None:
    far = torch.zeros((), device="cuda")
    with pytest.raises(AssertionError, match="item"), gpu.without_waiting():
        far.item()


def test_it_is_gone_afterwards() -> None:
    with PretendGpu().present():
        far = torch.zeros(3, device="cuda")
    assert far.device == CPU
    assert not torch.cuda.is_available()
