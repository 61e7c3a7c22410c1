"""Where the time of a training goes: its environments, acting, the bonus, the update."""

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
    """Adds up the seconds between starts and stops, or inside of `with` blocks.

    Attributes:
        seconds: What was added up so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0

    def start(self) -> None:
        """Measure from here."""
        self._started = time.perf_counter()

    def stop(self) -> None:
        """Add what has passed since the start."""
        self.seconds += time.perf_counter() - self._started

    def __enter__(self) -> Self:
        """Measure a block."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Add it, however it ended."""
        self.stop()

    @contextmanager
    def around(self, owner: object, method: str) -> Iterator[None]:
        """Measure the calls of a method of one object."""
        original, own = getattr(owner, method), method in vars(owner)

        def measured(*arguments: Any, **keywords: Any) -> Any:
            with self:
                return original(*arguments, **keywords)

        setattr(owner, method, measured)
        try:
            yield
        finally:
            if own:
                setattr(owner, method, original)
            else:
                delattr(owner, method)


@dataclass(frozen=True, kw_only=True)
class Seconds:
    """
    Where the time of a training has gone, in seconds on the wall's clock.

    `environment` is spent waiting for the environments' own steps, `bonus` in the exploration reward, `update` in the
    gradient steps. `acting` is the rest of the rollouts: the policy, copies, VecNormalize, the buffer, advantages,
    reports. `other` lies between them: checkpoints, evaluations, writing logs.
    """

    environment: float = 0.0
    acting: float = 0.0
    bonus: float = 0.0
    update: float = 0.0
    other: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.environment + self.acting + self.bonus + self.update + self.other


class TimingCallback(BaseCallback):
    """
    Logs where the time of each rollout went, and adds it up.

    `time/environment`, `time/acting` and `time/bonus` are those of the rollout. `time/update` is that of the update
    before it, as are all numbers of an update in SB3's logs.

    In a list of callbacks it belongs at the end: what the others do as a rollout starts is then no part of it.

    Args:
        environment: What measures the steps of the environments; None where nothing does, and they count as acting.
    """

    def __init__(self, environment: Stopwatch | None) -> None:
        super().__init__()
        self._environment = environment or Stopwatch()
        self._environment_before = 0.0
        self._bonus, self._rollouts, self._update, self._training = (Stopwatch() for _ in range(4))
        self._logged = Seconds()

    @contextmanager
    def measuring(self, model: OnPolicyAlgorithm, intrinsic: BaseCallback | None) -> Iterator[None]:
        """Measure the updates of a model, and of its bonus if there is one, while it learns."""
        with ExitStack() as stack:
            stack.enter_context(self._update.around(model, "train"))
            if intrinsic is not None:
                stack.enter_context(self._bonus.around(intrinsic, "on_rollout_end"))
            yield

    @property
    def seconds(self) -> Seconds:
        """Where the time went, between two rollouts; `other` is known once the training has ended."""
        environment = self._environment.seconds - self._environment_before
        rollouts, bonus, update = self._rollouts.seconds, self._bonus.seconds, self._update.seconds
        return Seconds(
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
