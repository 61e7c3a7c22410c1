"""How many processor cores there are for us, and what a training makes of them."""

import os
from dataclasses import replace

from revd.runs.config import TrainConfig


def available_cores() -> int:
    """The cores that this process may use, which on a cluster's node are often fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def emulator_threads(config: TrainConfig, *, on_gpu: bool) -> int:
    """
    The CPU threads that step a training's Atari games.

    A GPU waits for the games, so they get a thread each as far as there are cores. On a CPU it is one, for trainings
    there mostly run side by side, one for each core.
    """
    chosen = min(config.n_envs, available_cores()) if on_gpu else 1
    return config.emulator_threads or config.threads or chosen


def with_cores(config: TrainConfig, cores: int) -> TrainConfig:
    """The training as it runs beside others, with `cores` to itself; numbers of threads that it names stay."""
    if config.threads or config.emulator_threads:
        return config
    return replace(config, emulator_threads=max(min(config.n_envs, cores), 1))
