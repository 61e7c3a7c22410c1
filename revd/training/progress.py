"""Callbacks that report a training's progress and its episodes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import safe_mean


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a training after a rollout.

    Attributes:
        steps: Environment steps so far.
        total_steps: Environment steps of the whole training.
        steps_per_second: The speed since the training started or was resumed.
        episode_return: Mean of the task's own return over the last episodes (100, or the algorithm's
            `stats_window_size`); None before the first episode has ended.
        bonus_share: The bonus's share of the rewards; None without a bonus.
        bonus_mean: The mean bonus; None without a bonus.
    """

    steps: int
    total_steps: int
    steps_per_second: float
    episode_return: float | None = None
    bonus_share: float | None = None
    bonus_mean: float | None = None


@dataclass(frozen=True, kw_only=True)
class Episode:
    """A finished episode.

    Attributes:
        steps: Environment steps of the training so far, summed over all environments.
        episode_return: The task's own return.
        length: Steps of the episode.
        env: Index of the environment.
    """

    steps: int
    episode_return: float
    length: int
    env: int


def mean_return(model: BaseAlgorithm) -> float | None:
    """Return the mean of the task's own return over the last episodes; None before the first has ended."""
    returns = [episode["r"] for episode in model.ep_info_buffer or ()]
    return float(safe_mean(returns)) if returns else None


class BonusSource(Protocol):
    """The attribute of an intrinsic-reward callback that `ProgressCallback` reads."""

    @property
    def latest(self) -> Mapping[str, float]:
        """The metrics of the last rollout, with `bonus_share` and `bonus_mean`; empty before the first one."""


class ProgressCallback(BaseCallback):
    """Calls `report` with a `Progress` after each rollout.

    It must come after the intrinsic reward's callback, so that it reads the bonus of the same rollout.
    """

    def __init__(
        self, report: Callable[[Progress], None], *, total_steps: int, intrinsic: BonusSource | None = None
    ) -> None:
        super().__init__()
        self._report = report
        self._total_steps = total_steps
        self._intrinsic = intrinsic
        self._started = 0.0
        self._steps_before = 0

    def _on_training_start(self) -> None:
        self._started = time.perf_counter()
        self._steps_before = self.model.num_timesteps

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        elapsed = max(time.perf_counter() - self._started, 1e-9)
        bonus: Mapping[str, float] = self._intrinsic.latest if self._intrinsic is not None else {}
        self._report(
            Progress(
                steps=self.num_timesteps,
                total_steps=self._total_steps,
                steps_per_second=(self.num_timesteps - self._steps_before) / elapsed,
                episode_return=mean_return(self.model),
                bonus_share=bonus.get("bonus_share"),
                bonus_mean=bonus.get("bonus_mean"),
            )
        )


class EpisodeCallback(BaseCallback):
    """Calls `report` with every episode that a Monitor reports."""

    def __init__(self, report: Callable[[Episode], None]) -> None:
        super().__init__()
        self._report = report

    def _on_step(self) -> bool:
        for env, info in enumerate(self.locals["infos"]):
            if "episode" in info:
                episode = info["episode"]
                self._report(
                    Episode(
                        steps=self.num_timesteps,
                        episode_return=float(episode["r"]),
                        length=int(episode["l"]),
                        env=env,
                    )
                )
        return True
