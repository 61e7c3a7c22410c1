"""The processor and its cores, and the CPU threads that a training uses."""

import os
import platform
from dataclasses import replace
from pathlib import Path

from revd.runs.config import TrainConfig


def available_cores() -> int:
    """The cores that this process may use: on a node of a cluster often fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_processor() -> str:
    """The processor's name, where the system tells it, and the cores that this process may use."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [value.strip() for key, _, value in (line.partition(":") for line in lines) if key.strip() == "model name"]
    cores = available_cores()
    return f"{[*names, platform.machine()][0]}, {cores} core{'s' if cores > 1 else ''}"


def emulator_threads(config: TrainConfig, *, on_gpu: bool) -> int:
    """The CPU threads that step a training's Atari games, or EnvPool's environments.

    A GPU waits for the games, so each of them gets a thread, at most one for each core. On a CPU the default is one
    thread in all: trainings there mostly run side by side, one for each core.
    """
    default = min(config.n_envs, available_cores()) if on_gpu else 1
    return config.emulator_threads or config.threads or default


def with_emulator_threads(config: TrainConfig, cores: int) -> TrainConfig:
    """The training with emulator threads for a share of `cores`; numbers of threads that it sets are kept."""
    if config.threads or config.emulator_threads:
        return config
    return replace(config, emulator_threads=max(min(config.n_envs, cores), 1))
