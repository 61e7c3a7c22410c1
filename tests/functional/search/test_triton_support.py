"""Whether Triton is used: it must be installed, made for the GPU, and able to compile."""

from unittest.mock import MagicMock

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not made for this system")

from revd.functional.search import triton_kernels, triton_support

CUDA = torch.device("cuda")


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch):
    """What is called when the trial kernel is launched on a GPU that there need not be."""
    kernel = MagicMock()
    monkeypatch.setattr(triton_kernels, "write_zero", kernel)
    monkeypatch.setattr(torch, "zeros", lambda *shape, device: None)
    monkeypatch.setattr(torch.cuda, "device", MagicMock())
    triton_support.triton_works.cache_clear()
    yield kernel.__getitem__.return_value
    triton_support.triton_works.cache_clear()


@pytest.mark.parametrize("found", [None, "triton"])
@pytest.mark.parametrize("capability", [(7, 5), (8, 0)])
def test_it_is_used_where_it_is_installed_and_made_for_the_gpu(found, capability, launch, monkeypatch):
    monkeypatch.setattr(triton_support, "find_spec", lambda name: found)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    works = found is not None and capability >= (8, 0)
    assert triton_support.triton_works(CUDA) == works
    assert launch.called == works
    if works:
        torch.cuda.device.assert_called_once_with(CUDA)


def test_without_a_compiler_torch_is_used_and_a_warning_says_so_once(launch, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    launch.side_effect = RuntimeError("Failed to find C compiler")
    with pytest.warns(UserWarning, match="so slower ones of torch are used: Failed to find C compiler"):
        assert not triton_support.triton_works(CUDA)
    assert not triton_support.triton_works(CUDA)


def test_amds_gpus_are_left_to_torch(launch, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "7.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 4))
    assert not triton_support.triton_works(CUDA)
    assert not launch.called


def test_a_cpu_has_none():
    assert not triton_support.triton_works(torch.device("cpu"))
