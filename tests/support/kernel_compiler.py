"""Compiles our kernels for a GPU that need not be there: `python -m tests.support.kernel_compiler 90`.

The functions that launch them are called as in a training, with tensors in the host's memory; instead of a launch there
is a compilation, by the compilers that Triton brings along. Prints a line of JSON for each: the kernel, and what
`cuobjdump` says of the registers, the stack (into which registers are spilled) and the shared memory that it takes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import torch
import triton
from gymnasium import spaces
from torch import nn
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from revd.fast import clipped_adam, discrete_ppo
from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.losses import PPOObjective
from revd.fast.optimizers import CapturableMode
from revd.functional.search import ReferenceSet, triton_kernels, triton_search


class OnGpu(torch.Tensor):
    """A tensor that says so."""

    is_cuda = True


def main() -> None:
    with compiling_for(int(sys.argv[1])) as compiled:
        triton_kernels.write_zero[(1,)](torch.zeros(1))
        search()
        loss()
        adam()
    for name, kernel in compiled:
        print(json.dumps({"kernel": name, **resources(kernel)}))


@contextmanager
def compiling_for(capability: int) -> Iterator[list[tuple[str, Any]]]:
    """Within it, launches are compilations, which are listed."""
    target = GPUTarget("cuda", capability, 32)
    driver.set_active(Mock(get_current_device=lambda: 0, get_current_target=lambda: target))
    compiled: list[tuple[str, Any]] = []
    run = JITFunction.run

    def compile_only(self: Any, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> None:
        compiled.append((self.__name__, run(self, *arguments, grid=grid, warmup=True, **keywords)))

    with patch.object(JITFunction, "run", compile_only):
        yield compiled


def search() -> None:
    for d, k in ((64, 3), (128, 5), (512, triton_search.LARGEST_K)):
        points = torch.zeros(2, 256, d).as_subclass(OnGpu)
        visible = torch.full((2, 256), 200)
        triton_search.search_counting_unproven(
            points, [ReferenceSet(points, same_points=True), ReferenceSet(points)], k
        )
        triton_search.search_counting_unproven(
            points, [ReferenceSet(points, visible, own=torch.zeros(2, 256)), ReferenceSet(points, visible)], k
        )


def loss() -> None:
    objective = PPOObjective(normalize_advantage=True, clip_values=True)
    for n, n_actions in ((64, 6), (512, 18), (discrete_ppo.MAX_BATCH, 6)):
        assert discrete_ppo.can_evaluate(n, n_actions)
        observed = spaces.Box(-1, 1, (2,), np.float32)
        buffer = DeviceRolloutBuffer(n, observed, spaces.Discrete(n_actions), device="cpu")
        coefficients = torch.zeros(len(objective.coefficients))
        rows, values = torch.arange(n), torch.zeros(n, 1)
        discrete_ppo.loss_gradients(torch.zeros(n, n_actions), values, rows, buffer, objective, coefficients)


def adam() -> None:
    """Of 26 tensors, as many as the paper's policy for images has, and of more than go into one launch."""
    for count in (26, clipped_adam.TENSORS_PER_LAUNCH + 1):
        parameters = [nn.Parameter(torch.zeros(size, 40)) for size in range(1, count + 1)]
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        optimizer = torch.optim.Adam(parameters)
        optimizer.step()
        with CapturableMode(optimizer, torch.device("cpu")).enabled():
            clipped_adam.step(optimizer, parameters, 0.5)


def resources(kernel: Any) -> dict[str, int]:
    tool = triton.knobs.nvidia.cuobjdump.path
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        told = subprocess.run([tool, "-res-usage", file.name], check=True, capture_output=True, text=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", told)
    assert found, told
    return {"registers": int(found[1]), "stack": int(found[2]), "shared": kernel.metadata.shared}


if __name__ == "__main__":
    main()
