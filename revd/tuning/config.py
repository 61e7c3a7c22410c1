"""The configuration of a search. Imports no framework, so that the command line starts quickly."""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Literal, get_args

from revd.names import unknown_name
from revd.runs.config import RUNS, TrainConfig, file_name
from revd.tuning.parameters import SearchSpace

Metric = Literal["final", "mean"]


@dataclass(frozen=True, kw_only=True)
class TuneConfig:
    """A search for the best parameters of one training.

    Attributes:
        training: The training, with the values of all parameters that are not searched. Its seed is the seed of the
            search and the first seed of every trial; its output is the directory of the search.
        space: The searched parameters, from `make_space`.
        trials: Total number of trials.
        seeds: Seeds over which each trial is averaged.
        metric: What is maximised, of the task's own return: its "final" value, or its "mean" over the training.
        prune: Whether to stop bad trials early.
        jobs: Runs at the same time.
        retries: How often a failed run is restarted.
    """

    training: TrainConfig
    space: SearchSpace
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
        points = prod(dimension.candidates.points for dimension in self.space)
        if self.space and self.trials > points:
            raise ValueError(f"trials must be at most {points}, the number of points in the space, got {self.trials}")

    @property
    def search(self) -> dict[str, str]:
        """The searched parameters by name, as they are written on the command line."""
        return {dimension.name: str(dimension) for dimension in self.space}

    @property
    def directory(self) -> Path:
        """The directory of the search: the training's `output`, or a default one under `runs`."""
        training = self.training
        if training.output is not None:
            return training.output
        return RUNS / file_name(training.task) / file_name(f"tune-{training.algo}-{training.reward}")
