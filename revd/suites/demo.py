"""The demonstration: PPO with and without REVD on a task that rewards only reaching a distant goal."""

from dataclasses import dataclass
from pathlib import Path

from revd.runs.config import NO_REWARD, RUNS
from revd.runs.parameters import Parameters
from revd.suites.comparison import ComparisonConfig
from revd.suites.suite import Method

TASK = "MountainCar-v0"
THRESHOLD = -150.0
#: What is compared: no bonus, REVD with the weight that follows from the data, and with the paper's fixed weight.
METHODS = (
    Method("ppo", NO_REWARD),
    Method("ppo", "revd"),
    Method("ppo", "revd", "paper-weight", {"weight": 0.1}),
)


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

    def comparison(self) -> ComparisonConfig:
        """The comparison that the demonstration is."""
        return ComparisonConfig(
            task=TASK,
            methods=METHODS,
            settings={
                "n_envs": 10,
                "normalize": "observations",
                "algo_params": Parameters(n_steps=128, learning_rate=3e-4),
            },
            seeds=self.seeds,
            steps=self.steps,
            threshold=THRESHOLD,
            jobs=self.jobs,
            output=self.output or _free_directory(),
        )


def _free_directory() -> Path:
    """The first of `runs/demo-1`, `runs/demo-2`, … that does not exist."""
    number = 1
    while (path := RUNS / f"demo-{number}").exists():
        number += 1
    return path
