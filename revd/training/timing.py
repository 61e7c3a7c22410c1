"""How long a training spends in environments, policy, bonus and updates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from stable_baselines3.common.callbacks import BaseCallback

if TYPE_CHECKING:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm


class Stopwatch:
    """Adds up the seconds between starts and stops, or inside `with` blocks.

    Attributes:
        seconds: The sum so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0

    def start(self) -> None:
        """Start measuring."""
        self._started = time.perf_counter()

    def stop(self) -> None:
        """Add the time since the start."""
        self.seconds += time.perf_counter() - self._started

    def __enter__(self) -> Self:
        """Start measuring a block."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Add the block's time, also after an error."""
        self.stop()

    @contextmanager
    def around(self, owner: object, method: str) -> Iterator[None]:
        """Within the block, measure the calls of a method of one object."""
        original, on_instance = getattr(owner, method), method in vars(owner)

        def measured(*arguments: Any, **keywords: Any) -> Any:
            with self:
                return original(*arguments, **keywords)

        setattr(owner, method, measured)
        try:
            yield
        finally:
            if on_instance:
                setattr(owner, method, original)
            else:
                delattr(owner, method)


@dataclass(frozen=True, kw_only=True)
class TimeBreakdown:
    """The wall-clock time of a training in seconds, by part.

    Attributes:
        environment: Waiting for the environments' own steps.
        acting: The rest of the rollouts: policy, copies, VecNormalize, buffer, advantages, reports.
        bonus: The exploration reward.
        update: Gradient steps.
        other: Between rollouts and updates: checkpoints, evaluations, writing logs.
    """

    environment: float = 0.0
    acting: float = 0.0
    bonus: float = 0.0
    update: float = 0.0
    other: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return self.environment + self.acting + self.bonus + self.update + self.other


class TimingCallback(BaseCallback):
    """Logs the time of each rollout by part, and the sums.

    `time/environment`, `time/acting` and `time/bonus` belong to the rollout. `time/update` belongs to the update before
    it, like all values of an update in SB3's logs.

    It must be the last callback, so that the work of the others at the start of a rollout is not counted as rollout.

    Args:
        environment: Measures the steps of the environments; None if nothing does, then they count as acting.
    """

    def __init__(self, environment: Stopwatch | None) -> None:
        super().__init__()
        self._environment = environment or Stopwatch()
        self._environment_before = 0.0
        self._bonus, self._rollouts, self._update, self._training = (Stopwatch() for _ in range(4))
        self._logged = TimeBreakdown()

    @contextmanager
    def measuring(self, model: OnPolicyAlgorithm, intrinsic: BaseCallback | None) -> Iterator[None]:
        """Within the block, measure the model's updates and its bonus, if it has one."""
        with ExitStack() as stack:
            stack.enter_context(self._update.around(model, "train"))
            if intrinsic is not None:
                stack.enter_context(self._bonus.around(intrinsic, "on_rollout_end"))
            yield

    @property
    def seconds(self) -> TimeBreakdown:
        """The times so far, between two rollouts; `other` is complete once the training has ended."""
        environment = self._environment.seconds - self._environment_before
        rollouts, bonus, update = self._rollouts.seconds, self._bonus.seconds, self._update.seconds
        return TimeBreakdown(
            environment=environment,
            acting=rollouts - environment - bonus,
            bonus=bonus,
            update=update,
            other=max(self._training.seconds - rollouts - update, 0.0),
        )

    def _on_training_start(self) -> None:
        self._environment_before = self._environment.seconds
        self._training.start()

    def _on_rollout_start(self) -> None:
        self._rollouts.start()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self._rollouts.stop()
        seconds, before = self.seconds, self._logged
        for name in ("environment", "acting", "bonus"):
            self.logger.record(f"time/{name}", getattr(seconds, name) - getattr(before, name))
        if seconds.update > before.update:
            self.logger.record("time/update", seconds.update - before.update)
        self._logged = seconds

    def _on_training_end(self) -> None:
        self._training.stop()
