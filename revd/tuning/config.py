"""What one search is, as data. Imports no framework, so that the command line answers at once."""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Literal, get_args

from revd.names import unknown_name
from revd.runs.config import RUNS, TrainConfig, file_name
from revd.tuning.parameters import Space

Metric = Literal["final", "mean"]


@dataclass(frozen=True, kw_only=True)
class TuneConfig:
    """A search for the best parameters of one training.

    Attributes:
        training: The training with all that is not searched. Its seed is that of the search, and the first one of each
            trial; its output is the directory of the search.
        space: What is searched, as `make_space` understands it.
        trials: How many trials there are in the end.
        seeds: Over how many seeds each of them is averaged.
        metric: What is maximised, of the task's own return: its "final" value, or its "mean" over the training.
        prune: Whether trials that do badly on the way are stopped.
        jobs: Runs at a time.
        retries: How often a run that fails is started again.
    """

    training: TrainConfig
    space: Space
    trials: int = 20
    seeds: int = 1
    metric: Metric = "final"
    prune: bool = True
    jobs: int = 1
    retries: int = 1

    def __post_init__(self) -> None:
        for name, smallest in (("trials", 1), ("seeds", 1), ("jobs", 1), ("retries", 0)):
            if getattr(self, name) < smallest:
                raise ValueError(f"{name} must be at least {smallest}, got {getattr(self, name)}")
        if self.metric not in get_args(Metric):
            raise ValueError(unknown_name("metric", self.metric, get_args(Metric)))
        points = prod(axis.dimension.points for axis in self.space)
        if self.space and self.trials > points:
            raise ValueError(f"trials must be at most {points}, the points of the space, got {self.trials}")

    @property
    def search(self) -> dict[str, str]:
        """What is searched, as one would write it on the command line, by the parameters' names."""
        return {axis.name: str(axis) for axis in self.space}

    @property
    def directory(self) -> Path:
        """Where the search is kept: the training's `output`, or a place under `runs` that says what it is."""
        training = self.training
        if training.output is not None:
            return training.output
        return RUNS / file_name(training.task) / file_name(f"tune-{training.algo}-{training.reward}")
