"""The demonstration: PPO with and without REVD on a task that rewards only reaching a distant goal."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from revd.runs.config import NO_REWARD, RUNS, TrainConfig
from revd.runs.cpu_threads import available_cores
from revd.runs.parameters import Parameters

TASK = "MountainCar-v0"
THRESHOLD = -150.0
#: What is compared: no bonus, REVD with the weight that follows from the data, and with the paper's fixed weight.
DEMO_METHODS: Mapping[str, Mapping[str, Any]] = {
    "ppo": {"reward": NO_REWARD},
    "ppo-revd": {"reward": "revd"},
    "ppo-revd-paper-weight": {"reward": "revd", "weight": 0.1},
}


@dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """PPO against PPO+REVD on MountainCar-v0, with two weights: a table and a learning curve, in minutes."""

    seeds: int = 3
    """Seeds of each method, from 1 on."""
    steps: int = 120_000
    """Environment steps of each run."""
    jobs: int = 0
    """Runs at a time; 0 for one on each processor core."""
    output: Path | None = None
    """Directory of the demonstration."""

    def __post_init__(self) -> None:
        for name, smallest in {"seeds": 1, "steps": 1, "jobs": 0}.items():
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} must be at least {smallest}, got {getattr(self, name)}")

    @property
    def processes(self) -> int:
        """Runs at a time, with 0 replaced by the number of cores."""
        return self.jobs or available_cores()

    def directory(self) -> Path:
        """`output`, or the first of `runs/demo-1`, `runs/demo-2`, … that does not exist."""
        if self.output is not None:
            return self.output
        number = 1
        while (path := RUNS / f"demo-{number}").exists():
            number += 1
        return path


def demo_runs(demo: DemoConfig, directory: Path) -> list[TrainConfig]:
    """All methods with equal settings, seed by seed, so that an early stop leaves complete comparisons."""
    return [
        TrainConfig(
            task=TASK,
            seed=seed,
            steps=demo.steps,
            output=directory / f"{name}-seed{seed}",
            n_envs=10,
            normalize="observations",
            algo_params=Parameters(n_steps=128, learning_rate=3e-4),
            **method,
        )
        for seed in range(1, demo.seeds + 1)
        for name, method in DEMO_METHODS.items()
    ]
