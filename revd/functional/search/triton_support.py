"""Whether Triton kernels can be compiled for a device, and how to launch them there."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec

import torch


@cache
def triton_works(device: torch.device) -> bool:
    """Whether Triton can compile and launch kernels on the device.

    Triton comes with CUDA builds of torch and needs a C compiler. Its products of bfloat16 need Ampere or later. AMD's
    GPUs, which torch calls "cuda" too, need other options and were not tested.
    """
    if device.type != "cuda" or torch.version.hip is not None or find_spec("triton") is None:
        return False
    if torch.cuda.get_device_capability(device) < (8, 0):
        return False
    from revd.functional.search import triton_kernels

    try:
        with launching_on(device):
            triton_kernels.write_zero[(1,)](torch.zeros(1, device=device))
    except Exception as error:  # Triton, its compilers and the driver raise errors of many types.
        warnings.warn(f"Triton cannot compile kernels here, so slower ones of torch are used: {error}", stacklevel=2)
        return False
    return True


def launching_on(device: torch.device) -> AbstractContextManager[object]:
    """A context in which Triton launches on the device: it uses the current one, wherever the tensors are."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
