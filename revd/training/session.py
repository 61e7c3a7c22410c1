"""An algorithm and its exploration bonus as one thing that learns, can be saved, and goes on."""

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
from revd.training.csv_log import CsvLog
from revd.training.env_checks import TrainingFault, find_checked
from revd.training.evaluation import Evaluation, EvaluationCallback
from revd.training.event_log import EventLog
from revd.training.nan_guard import DivergenceCallback, check_policy, explain
from revd.training.progress import Episode, EpisodeCallback, Progress, ProgressCallback
from revd.training.snapshot import Moment, Snapshot, load_policy, restore_snapshot, take_snapshot
from revd.training.snapshot_schema import check_values
from revd.training.timing import Seconds, TimingCallback
from revd.training.vec_env import normalization_state

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

    from revd.sb3.callback import IntrinsicRewardCallback
    from revd.storage.csv_file import CsvFile

#: Between the seeds of a run's sessions: a resumed run must not see its first episodes again.
SEED_STRIDE = 100_003


@dataclass(frozen=True, kw_only=True)
class Listeners:
    """Who is told how a training goes."""

    on_rollout: Callable[[Progress], None]
    on_episode: Callable[[Episode], None]
    on_checkpoint: Callable[[int, Snapshot], None]
    checkpoint_every: int
    on_evaluation: Callable[[Evaluation], None]
    eval_every: int = 0
    eval_episodes: int = 10


@dataclass(frozen=True, kw_only=True)
class TrainingMoment:
    """What a rollout changes, as it was before it: the model's part, and what waits for the logger's next line."""

    model: Moment
    pending: dict[str, float]


@dataclass(kw_only=True)
class Training:
    """A model in its environments, with the bonus it is paid, if any.

    Attributes:
        model: The algorithm.
        intrinsic: The callback that pays the bonus.
        evaluation_env: Where the policy is evaluated; None if it is not.
        sessions: How often the training was resumed.
        seconds: Where the time of the last `learn` went, if it came to its end.
    """

    model: OnPolicyAlgorithm
    intrinsic: IntrinsicRewardCallback | None = None
    evaluation_env: VecEnv | None = None
    sessions: int = field(default=0, init=False)
    seconds: Seconds = field(default_factory=Seconds, init=False)
    _pending: dict[str, float] = field(default_factory=dict, init=False)

    @property
    def steps(self) -> int:
        """Environment steps taken so far, in all sessions."""
        return self.model.num_timesteps

    def check(self) -> None:
        """Raise now what the bonus would have against this model once training starts."""
        if self.intrinsic is not None:
            self.intrinsic.init_callback(self.model)

    def learn(self, steps: int, *, progress: CsvFile, events: Path, listeners: Listeners) -> None:
        """Train until `steps` are done; the logger's numbers go to `progress` and as TensorBoard events to `events`."""
        logger = _make_logger(progress, events, resumed_at=self.steps)
        for name, value in self._pending.items():
            logger.record(name, value)
        self.model.set_logger(logger)
        checkpoints = _CheckpointCallback(self, listeners)
        checked = find_checked(self.model.get_env())
        timing = TimingCallback(None if checked is None else checked.stopwatch)
        try:
            with warnings.catch_warnings(), timing.measuring(self.model, self.intrinsic):
                # Returns that are too large for float32 are an error of ours, a moment later.
                warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"stable_baselines3\.common\.buffers")
                self.model.learn(
                    steps - self.steps,
                    callback=[*self._callbacks(steps, listeners), checkpoints, timing],
                    reset_num_timesteps=self.steps == 0,
                    # A2C's default of 100 would lose most of the bonus's numbers.
                    log_interval=1,
                    **learn_arguments(self.model),
                )
        except TrainingFault as fault:
            if not fault.spoilt:
                checkpoints.save_last_good()
            raise
        except (ValueError, RuntimeError) as error:
            diverged = explain(error, self.model)
            if diverged is None:
                raise
            raise diverged from error
        finally:
            logger.close()
        self.seconds = timing.seconds

    def snapshot(self) -> Snapshot:
        """Everything needed to go on, between two rollouts."""
        return self.snapshot_of(self.moment())

    def moment(self) -> TrainingMoment:
        """What the next rollout will change, as it is."""
        return TrainingMoment(model=Moment.now(self.model), pending=self._recorded())

    def snapshot_of(self, moment: TrainingMoment) -> Snapshot:
        """Everything needed to go on from a moment since the last update; a Divergence if that is not finite."""
        check_policy(self.model)
        tensors, values = take_snapshot(self.model, self.intrinsic, moment.model)
        return tensors, {**values, "sessions": self.sessions, "pending": moment.pending}

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, with new episodes in all environments; a ValueError if it is of another training."""
        try:
            check_values(snapshot[1])
            restore_snapshot(snapshot, self.model, self.intrinsic)
            self.sessions = snapshot[1]["sessions"] + 1
            self._pending = snapshot[1]["pending"]
        except (KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise ValueError(f"the checkpoint does not fit this training: {type(error).__name__}: {error}") from error
        env = self.model.get_env()
        assert env is not None
        env.seed((self.model.seed or 0) + SEED_STRIDE * self.sessions)
        checked = find_checked(env)
        if checked is not None:
            checked.steps = self.steps

    def start_from(self, snapshot: Snapshot, *, value: bool, optimizer: bool) -> None:
        """Take the policy of another training."""
        load_policy(snapshot, self.model, value=value, optimizer=optimizer)

    def save_model(self, path: Path) -> None:
        """The networks and the optimiser, as SB3's own zip."""
        self.model.save(path)

    def save_normalization(self, path: Path) -> None:
        """The statistics of VecNormalize, as safetensors."""
        write_whole(path, save(self.normalization_state()))

    def save_vec_normalize(self, path: Path) -> None:
        """The VecNormalize without its environments, as `VecNormalize.load` reads it; there must be one."""
        env = self.model.get_vec_normalize_env()
        assert env is not None
        # As VecNormalize.save, but pickled as model.zip is: spaces of classes made in a function can be saved too.
        write_whole(path, cloudpickle.dumps(env))

    def normalization_state(self) -> dict[str, torch.Tensor]:
        """The statistics of VecNormalize; empty where nothing is normalised."""
        env = self.model.get_env()
        return {} if env is None else normalization_state(env)

    def close(self) -> None:
        """Close the environments."""
        for env in (self.model.get_env(), self.evaluation_env):
            if env is not None:
                env.close()

    def _recorded(self) -> dict[str, float]:
        """What the update has told the logger since its last line: it belongs into the line after the checkpoint."""
        if not hasattr(self.model, "_logger"):
            return self._pending
        recorded = self.model.logger.name_to_value.items()
        # Whole numbers stay whole, so that a resumed run's line reads as it would have.
        return {
            name: value if isinstance(value, int) else float(value) for name, value in recorded if math.isfinite(value)
        }

    def _callbacks(self, steps: int, listeners: Listeners) -> list[BaseCallback]:
        # The bonus before those who read its numbers. The checkpoint's comes after these: it holds what they changed.
        callbacks: list[BaseCallback] = [DivergenceCallback()]
        if self.intrinsic is not None:
            callbacks.append(self.intrinsic)
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
    """Takes a snapshot between two rollouts, whenever enough steps have passed since the last."""

    def __init__(self, training: Training, listeners: Listeners) -> None:
        super().__init__()
        self._training = training
        self._listeners = listeners
        self._last = training.steps
        self._moment: TrainingMoment | None = None

    def save_last_good(self) -> None:
        """Take a snapshot of the state after the last completed update, unless it is kept already."""
        # Without a moment no rollout has begun since that update: an evaluation broke.
        moment = self._moment or self._training.moment()
        if moment.model.num_timesteps > self._last:
            self._save(moment)

    def _on_rollout_start(self) -> None:
        self._moment = self._training.moment()
        if self._training.steps - self._last >= self._listeners.checkpoint_every:
            self._save(self._moment)

    def _on_rollout_end(self) -> None:
        self._moment = None

    def _save(self, moment: TrainingMoment) -> None:
        self._last = moment.model.num_timesteps
        self._listeners.on_checkpoint(self._last, self._training.snapshot_of(moment))

    def _on_step(self) -> bool:
        return True


def _make_logger(progress: CsvFile, events: Path, *, resumed_at: int) -> Logger:
    return Logger(folder=str(events), output_formats=[CsvLog(progress), EventLog(events, resumed_at=resumed_at)])
