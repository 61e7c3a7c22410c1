"""A training: an algorithm with its exploration bonus, which can be saved and resumed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import cloudpickle
from safetensors.torch import save
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

from revd.storage.atomic import write_whole
from revd.training.algorithms import learn_arguments
from revd.training.checked_vec_env import find_checked_vec_env
from revd.training.csv_log import CsvLog
from revd.training.env_checks import TrainingFault
from revd.training.evaluation import EvaluationCallback, EvaluationResult
from revd.training.event_log import EventLog
from revd.training.initial_policy import load_policy
from revd.training.nan_guard import NanGuard, check_policy, not_finite_cause
from revd.training.progress import Episode, EpisodeCallback, Progress, ProgressCallback
from revd.training.snapshot import PreRolloutState, Snapshot, normalization_state, restore_snapshot, take_snapshot
from revd.training.timing import TimeBreakdown, TimingCallback

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

    from revd.sb3.callback import IntrinsicRewardCallback
    from revd.sb3.coverage import CoverageCallback
    from revd.storage.csv_file import CsvFile

#: Difference between the seeds of two sessions: a resumed run must not repeat its first episodes.
SEED_STRIDE = 100_003


@dataclass(frozen=True, kw_only=True)
class Listeners:
    """Functions that a training calls, and how often.

    Attributes:
        on_rollout: Called after each rollout.
        on_episode: Called after each episode.
        on_checkpoint: Called with the steps and a snapshot.
        checkpoint_every: Least number of steps between two snapshots.
        on_evaluation: Called after each evaluation.
        eval_every: Steps between two evaluations.
        eval_episodes: Episodes per evaluation.
    """

    on_rollout: Callable[[Progress], None]
    on_episode: Callable[[Episode], None]
    on_checkpoint: Callable[[int, Snapshot], None]
    checkpoint_every: int
    on_evaluation: Callable[[EvaluationResult], None]
    eval_every: int = 0
    eval_episodes: int = 10


@dataclass(kw_only=True)
class Training:
    """An algorithm with its environments, its bonus and its count of visited states.

    Attributes:
        model: The algorithm.
        intrinsic: The callback that adds the bonus; None without a bonus.
        coverage: The callback that counts visited states; None if they are not counted.
        evaluation_env: The environment of evaluations; None for no evaluations.
        sessions: How often the training was resumed.
        seconds: The time that the last completed `learn` took, by part.
    """

    model: OnPolicyAlgorithm
    intrinsic: IntrinsicRewardCallback | None = None
    coverage: CoverageCallback | None = None
    evaluation_env: VecEnv | None = None
    sessions: int = field(default=0, init=False)
    seconds: TimeBreakdown = field(default_factory=TimeBreakdown, init=False)
    _pending: dict[str, float] = field(default_factory=dict, init=False)

    @property
    def steps(self) -> int:
        """Environment steps so far, in all sessions."""
        return self.model.num_timesteps

    def check(self) -> None:
        """Check the callbacks against the model now rather than at the start of the training."""
        for callback in (self.intrinsic, self.coverage):
            if callback is not None:
                callback.init_callback(self.model)

    def learn(self, steps: int, *, progress: CsvFile, events: Path, listeners: Listeners) -> None:
        """Train until `steps` are done in all sessions.

        Args:
            steps: Environment steps of the whole training.
            progress: The CSV file for the logger's values.
            events: The directory for TensorBoard events with the same values.
            listeners: What to report, and to whom.
        """
        logger = _make_logger(progress, events, resumed_at=self.steps)
        for name, value in self._pending.items():
            logger.record(name, value)
        self.model.set_logger(logger)
        checkpoints = _CheckpointCallback(self, listeners)
        checked = find_checked_vec_env(self.model.get_env())
        timing = TimingCallback(None if checked is None else checked.stopwatch)
        try:
            with warnings.catch_warnings(), timing.measuring(self.model, self.intrinsic):
                # If returns overflow float32, NanGuard raises an error a moment later.
                warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"stable_baselines3\.common\.buffers")
                self.model.learn(
                    steps - self.steps,
                    callback=[*self._callbacks(steps, listeners), checkpoints, timing],
                    reset_num_timesteps=self.steps == 0,
                    # A2C's default of 100 would drop most values of the bonus.
                    log_interval=1,
                    **learn_arguments(self.model),
                )
        except TrainingFault as fault:
            if not fault.policy_lost:
                checkpoints.save_pre_rollout()
            raise
        except (ValueError, RuntimeError) as error:
            cause = not_finite_cause(error, self.model)
            if cause is None:
                raise
            raise cause from error
        finally:
            logger.close()
        self.seconds = timing.seconds

    def snapshot(self) -> Snapshot:
        """Take a snapshot between two rollouts."""
        return self.snapshot_of(self.pre_rollout_state())

    def pre_rollout_state(self) -> PreRolloutState:
        """Copy the state that the next rollout will change."""
        return PreRolloutState.of_model(self.model, self._pending_log_values())

    def snapshot_of(self, state: PreRolloutState) -> Snapshot:
        """Take a snapshot of a state since the last update; a NotFiniteError if the policy is not finite."""
        check_policy(self.model)
        return take_snapshot(self.model, self.intrinsic, self.coverage, state, sessions=self.sessions)

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from a snapshot, with new episodes in all environments; a ValueError if it does not fit."""
        try:
            restore_snapshot(snapshot, self.model, self.intrinsic, self.coverage)
            self.sessions = snapshot[1]["sessions"] + 1
            self._pending = snapshot[1]["pending"]
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise ValueError(f"the checkpoint does not fit this training: {type(error).__name__}: {error}") from error
        env = self.model.get_env()
        assert env is not None
        env.seed((self.model.seed or 0) + SEED_STRIDE * self.sessions)
        checked = find_checked_vec_env(env)
        if checked is not None:
            checked.steps = self.steps

    def start_from(self, snapshot: Snapshot, *, value: bool, optimizer: bool) -> None:
        """Start from the policy of another training; see `load_policy`."""
        load_policy(snapshot, self.model, value=value, optimizer=optimizer)

    def save_model(self, path: Path) -> None:
        """Save networks and optimiser as SB3's zip file."""
        self.model.save(path)

    def save_normalization(self, path: Path) -> None:
        """Save the statistics of VecNormalize as safetensors."""
        write_whole(path, save(self.normalization_state()))

    def save_vec_normalize(self, path: Path) -> None:
        """Save the VecNormalize, which must exist, for `VecNormalize.load`."""
        env = self.model.get_vec_normalize_env()
        assert env is not None
        # cloudpickle, as in model.zip: pickle cannot save spaces whose class was defined in a function.
        write_whole(path, cloudpickle.dumps(env))

    def normalization_state(self) -> dict[str, torch.Tensor]:
        """Return the statistics of VecNormalize; empty if there is none."""
        env = self.model.get_env()
        return {} if env is None else normalization_state(env)

    def close(self) -> None:
        """Close the environments."""
        for env in (self.model.get_env(), self.evaluation_env):
            if env is not None:
                env.close()

    def _pending_log_values(self) -> dict[str, float]:
        """Return the values logged since the logger's last line, for the line after the checkpoint."""
        if not hasattr(self.model, "_logger"):
            return self._pending
        recorded = self.model.logger.name_to_value.items()
        # Integers stay integers, so that a resumed run writes the same line.
        return {
            name: value if isinstance(value, int) else float(value) for name, value in recorded if math.isfinite(value)
        }

    def _callbacks(self, steps: int, listeners: Listeners) -> list[BaseCallback]:
        # The bonus before callbacks that read its metrics, checkpoints after all callbacks that change state.
        callbacks: list[BaseCallback] = [NanGuard()]
        if self.intrinsic is not None:
            callbacks.append(self.intrinsic)
        if self.coverage is not None:
            callbacks.append(self.coverage)
        callbacks.append(ProgressCallback(listeners.on_rollout, total_steps=steps, intrinsic=self.intrinsic))
        callbacks.append(EpisodeCallback(listeners.on_episode))
        if self.evaluation_env is not None:
            callbacks.append(
                EvaluationCallback(
                    self.evaluation_env,
                    every=listeners.eval_every,
                    episodes=listeners.eval_episodes,
                    report=listeners.on_evaluation,
                )
            )
        return callbacks


class _CheckpointCallback(BaseCallback):
    """Takes a snapshot between two rollouts once `checkpoint_every` steps have passed since the last."""

    def __init__(self, training: Training, listeners: Listeners) -> None:
        super().__init__()
        self._training = training
        self._listeners = listeners
        self._last = training.steps
        self._state: PreRolloutState | None = None

    def save_pre_rollout(self) -> None:
        """Take a snapshot of the state after the last completed update, unless there is one."""
        # Without a state no rollout has begun since that update: an evaluation failed.
        state = self._state or self._training.pre_rollout_state()
        if state.num_timesteps > self._last:
            self._save(state)

    def _on_rollout_start(self) -> None:
        self._state = self._training.pre_rollout_state()
        if self._training.steps - self._last >= self._listeners.checkpoint_every:
            self._save(self._state)

    def _on_rollout_end(self) -> None:
        self._state = None

    def _save(self, state: PreRolloutState) -> None:
        self._last = state.num_timesteps
        self._listeners.on_checkpoint(self._last, self._training.snapshot_of(state))

    def _on_step(self) -> bool:
        return True


def _make_logger(progress: CsvFile, events: Path, *, resumed_at: int) -> Logger:
    return Logger(folder=str(events), output_formats=[CsvLog(progress), EventLog(events, resumed_at=resumed_at)])
