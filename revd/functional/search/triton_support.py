"""Whether kernels of our own can be compiled for a device."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib.util import find_spec

import torch


@cache
def triton_works(device: torch.device) -> bool:
    """Triton comes with CUDA builds of torch, and needs a C compiler; its products of bfloat16 need Ampere or later.

    AMD's GPUs, which torch calls "cuda" too, take other options, and nothing was tried on them.
    """
    if device.type != "cuda" or torch.version.hip is not None or find_spec("triton") is None:
        return False
    if torch.cuda.get_device_capability(device) < (8, 0):
        return False
    from revd.functional.search import triton_kernels

    try:
        with current(device):
            triton_kernels.nothing[(1,)](torch.zeros(1, device=device))
    except Exception as error:  # Triton, its compilers and the driver raise what they like
        warnings.warn(
            f"Triton cannot compile kernels here, so torch's stand in, which are slower: {error}", stacklevel=2
        )
        return False
    return True


def current(device: torch.device) -> AbstractContextManager[object]:
    """Within it, Triton launches on the device: it takes the current one, wherever the tensors are."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
