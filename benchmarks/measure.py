"""Timing and memory for the benchmarks. Several candidates are always measured in turn, in one run."""

from __future__ import annotations

import argparse
import ctypes
import gc
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch


def interleaved(
    cases: Mapping[str, Callable[[], object]],
    *,
    seconds: float,
    device: str,
    min_repeats: int = 5,
    max_repeats: int = 1_000,
) -> dict[str, list[float]]:
    """Measure milliseconds of each call.

    Calls take turns, so that other load on the machine affects all alike.

    Each is called once before, which includes any compilation.
    """
    for call in cases.values():
        milliseconds(call, device)
    times: dict[str, list[float]] = {name: [] for name in cases}
    end = time.perf_counter() + seconds
    for repeat in range(max_repeats):
        if repeat >= min_repeats and time.perf_counter() > end:
            break
        for name, call in cases.items():
            times[name].append(milliseconds(call, device))
    return times


def milliseconds(call: Callable[[], object], device: str) -> float:
    """Time of one call: by the wall clock, or on a GPU by CUDA events."""
    if not _is_cuda(device):
        start = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - start)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    _synchronize(device)
    begin.record()
    call()
    end.record()
    _synchronize(device)
    elapsed: float = begin.elapsed_time(end)
    return elapsed


def peak_extra_memory(call: Callable[[], object], device: str) -> int | None:
    """Peak memory of a call beyond what was allocated before, in bytes; None if the system cannot tell.

    On a CPU this is the growth of the resident set, because torch does not count its allocations there.
    """
    call()  # memory that is allocated once and kept, such as a library's workspace, does not count
    gc.collect()
    if _is_cuda(device):
        _synchronize(device)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        _synchronize(device)
        return torch.cuda.max_memory_allocated() - before
    try:
        ctypes.CDLL(None).malloc_trim(0)  # otherwise freed memory that malloc keeps could be reused unnoticed
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, the peak of the resident set
        before = _status("VmRSS")
        call()
        return max(0, _status("VmHWM") - before)
    except (OSError, AttributeError):
        return None


def parse_options(description: str | None, *, seconds: float) -> argparse.Namespace:
    """Parse `device`, `threads` and `seconds` of a benchmark, and set torch's threads."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=seconds, help="for each shape")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return options


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def machine(device: str) -> str:
    """The hardware and the version of torch."""
    name = torch.cuda.get_device_name() if _is_cuda(device) else _cpu_name()
    return f"{name}, {torch.get_num_threads()} CPU thread(s), torch {torch.__version__}"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def _is_cuda(device: str) -> bool:
    return torch.device(device).type == "cuda"


def _synchronize(device: str) -> None:
    if _is_cuda(device):
        torch.cuda.synchronize()
