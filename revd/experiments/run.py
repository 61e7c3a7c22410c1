"""One training, from its config to its run directory."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from revd.experiments.config import NO_REWARD, TrainConfig
from revd.experiments.rundir import EpisodeLog, RunDirectory, Status, replacing
from revd.rewards import check_parameters, make_reward
from revd.sb3 import IntrinsicRewardCallback
from revd.sb3.algorithms import algorithm_parameters, make_algorithm
from revd.sb3.environments import make_vec_env
from revd.sb3.progress import Progress
from revd.sb3.training import Training

if TYPE_CHECKING:
    from revd.spaces import Space

Report = Callable[[Progress], None]

# A rollout may take milliseconds; the status file is for eyes.
SECONDS_BETWEEN_STATUSES = 0.5


def train(config: TrainConfig, *, report: Report | None = None) -> Path:
    """
    Train, and return the run directory.

    What is wrong with a config is raised before anything is written. `report` is called after each rollout.
    Torch's number of threads is set for the whole process.
    """
    torch.set_num_threads(config.threads)
    directory = RunDirectory(config.directory)
    directory.require_unused()
    with closing(prepare(config)) as training:
        directory.create(config, resolved=resolve(config, training))
        observer = _Observer(config, directory, report)
        try:
            with closing(EpisodeLog(directory.episodes)) as episodes:
                training.learn(
                    config.steps,
                    logs=directory.path,
                    on_rollout=observer,
                    on_episode=lambda episode: episodes.write(**asdict(episode)),
                )
            save(training, directory)
        except BaseException as error:
            failed = replace(observer.status, state="failed", error=one_line(error))
            directory.finish(failed, traceback=traceback.format_exc())
            raise
        directory.finish(replace(observer.status, state="finished"))
    return directory.path


def prepare(config: TrainConfig) -> Training:
    """Build environments, algorithm and bonus. Nothing is written; a wrong name or value is a ValueError."""
    env = make_vec_env(
        config.task,
        n_envs=config.n_envs,
        seed=config.seed,
        normalize=config.normalize,
        gamma=config.algo_params.get("gamma", 0.99),
    )
    model = make_algorithm(config.algo, env, seed=config.seed, device=config.device, parameters=config.algo_params)
    if config.reward == NO_REWARD:
        return Training(model=model)
    training = Training(model=model, intrinsic=_make_bonus(config, model.observation_space, model.action_space))
    training.check()
    return training


def resolve(config: TrainConfig, training: Training) -> dict[str, Any]:
    """What the config leaves to defaults, as it was in this training."""
    reward = training.intrinsic.reward if training.intrinsic is not None else None
    return {
        "method": config.method,
        "device": str(training.model.device),
        "algo_params": algorithm_parameters(config.algo, training.model.observation_space, config.algo_params),
        "reward_params": {} if reward is None else asdict(reward.config),
    }


def save(training: Training, directory: RunDirectory) -> None:
    """Keep what a later session needs: the model, the normalisation's statistics and the bonus's memory."""
    with replacing(directory.model) as path:
        training.save_model(path)
    if training.normalization_state():
        with replacing(directory.normalization) as path:
            training.save_normalization(path)
    if training.intrinsic is not None:
        with replacing(directory.bonus) as path:
            training.intrinsic.save(path)


def one_line(error: BaseException) -> str:
    """An error as tables show it."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped by the user"
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _make_bonus(config: TrainConfig, observation_space: Space, action_space: Space) -> IntrinsicRewardCallback:
    # The spaces are the model's own: images are channels first there, and the bonus sees what the policy sees.
    parameters = {"seed": config.seed, "normalize": config.normalize_bonus, **config.reward_params}
    check_parameters(config.reward, parameters)
    reward = make_reward(config.reward, observation_space, action_space, n_envs=config.n_envs, **parameters)
    return IntrinsicRewardCallback(
        reward,
        weight=config.weight,
        decay=config.decay,
        decay_per=config.decay_per,
        extrinsic_weight=config.extrinsic_weight,
    )


class _Observer:
    """Keeps the status file up to date and passes progress on."""

    def __init__(self, config: TrainConfig, directory: RunDirectory, report: Report | None) -> None:
        self.status = Status(state="running", total_steps=config.steps)
        self._directory = directory
        self._report = report
        self._written = -SECONDS_BETWEEN_STATUSES

    def __call__(self, progress: Progress) -> None:
        self.status = Status(
            state="running",
            steps=progress.steps,
            total_steps=progress.total_steps,
            episode_return=progress.episode_return,
            bonus_share=progress.bonus_share,
            steps_per_second=progress.steps_per_second,
        )
        if time.monotonic() - self._written >= SECONDS_BETWEEN_STATUSES:
            self._directory.write_status(self.status)
            self._written = time.monotonic()
        if self._report is not None:
            self._report(progress)
