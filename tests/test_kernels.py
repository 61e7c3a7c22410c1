"""Every kernel as GPUs get it: Triton compiles for them without one, which its interpreter does not show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not made for this system")

import triton

from revd.fast import triton_kernels as of_trainings
from revd.functional.search import triton_kernels as of_searches

#: Bytes of registers that each thread may spill; the largest neighbourhoods and minibatches do (Triton 3.7).
SPILLED = {"prepare": 8, "search": 1024, "search_again": 64, "discrete_ppo": 512}
#: Bytes of shared memory that consumer GPUs have for a block of threads.
SHARED = 99 * 1024


def names(module: Any) -> set[str]:
    """The kernels of a module that are launched, and not called by others."""
    return {name for name, found in vars(module).items() if hasattr(found, "arg_names") and not name.startswith("_")}


def unchanged_compilers() -> dict[str, str]:
    """The environment without what would let Triton or NVIDIA's assembler compile otherwise, or interpret."""
    changing = ("TRITON_", "DISABLE_PTXAS_OPT", "PTXAS_OPTIONS")
    return {
        name: value for name, value in os.environ.items() if not name.startswith(changing) or name.endswith("_PATH")
    }


@pytest.mark.parametrize("capability", [80, 90, 120], ids=["A100", "H200", "RTX 50"])
def test_kernels_compile_and_fit(capability: int, tmp_path: Path) -> None:
    if not Path(triton.knobs.nvidia.cuobjdump.path).exists():
        pytest.skip("Triton came without NVIDIA's cuobjdump")
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kernel_compiler", str(capability)],
        cwd=Path(__file__).parents[1],
        env={**unchanged_compilers(), "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    compiled = [json.loads(line) for line in done.stdout.splitlines()]
    assert {each["kernel"] for each in compiled} == names(of_searches) | names(of_trainings)
    for each in compiled:
        assert each["stack"] <= SPILLED.get(each["kernel"], 0), each
        assert each["shared"] <= SHARED, each
