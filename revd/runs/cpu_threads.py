"""Processor cores of this process, and the CPU threads that a training uses."""

import os
from dataclasses import replace

from revd.runs.config import TrainConfig


def available_cores() -> int:
    """The cores that this process may use: on a node of a cluster often fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
