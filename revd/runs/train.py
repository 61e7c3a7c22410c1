"""One training, from its config to its run directory."""

from __future__ import annotations

import traceback
import warnings
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from revd.envs.make import register
from revd.envs.tasks import find_task
from revd.rewards import check_parameters, make_reward
from revd.runs.config import NO_REWARD, TrainConfig
from revd.runs.cpu_threads import emulator_threads
from revd.runs.directory import RunDirectory, State, Status
from revd.runs.lease import Lease, LeaseLostError
from revd.runs.writer import Observer, Report
from revd.sb3 import IntrinsicRewardCallback
from revd.storage.atomic import is_full_disk, replacing
from revd.training.algorithms import algorithm_class, algorithm_parameters, is_gpu, make_algorithm
from revd.training.env_checks import TrainingFault
from revd.training.policies import paper_policy
from revd.training.sb3_models import read_export
from revd.training.session import Training
from revd.training.vec_env import make_vec_env
from revd.weighting.balance import ON_COMMAND_LINE, BalanceWatch

if TYPE_CHECKING:
    from revd.spaces import Space
    from revd.training.snapshot import Snapshot

#: The algorithms whose policies the paper's networks can be: neither recurrent nor masked.
PAPER_NETWORKS = ("ppo", "a2c", "trpo")
#: Added to the seed of a training for the environments in which it is evaluated.
EVALUATION_SEED = 50_021


class RunFailedError(RuntimeError):
    """A training that broke off through no fault of ours: its environment, or a full disk. It can be gone on with."""


def train(config: TrainConfig, *, report: Report | None = None, trust: bool = False) -> Path:
    """
    Train, and return the run directory; a run that the directory already holds goes on from its last checkpoint.

    What is wrong with a config is raised before anything is written. `report` is called after each rollout. Torch's
    number of threads is set for the whole process. A RunFailedError says why a training broke off. `trust` lets
    `init_from` name a file of SB3's, reading which may execute what it holds.
    """
    torch.set_num_threads(config.torch_threads)
    directory = RunDirectory(config.directory)
    directory.open(config)
    if directory.is_finished(config.steps):
        return directory.path
    with closing(prepare(config)) as training:
        if config.init_from is not None and directory.checkpoints.newest_steps is None:
            training.start_from(
                read_source(config.init_from, trust=trust), value=config.init_value, optimizer=config.init_optimizer
            )
        try:
            with directory.locked() as held:
                _train(config, training, directory, held, report)
        except (TrainingFault, OSError) as error:
            if isinstance(error, OSError) and not is_full_disk(error):
                raise
            raise RunFailedError(failure(error, directory)) from error
    return directory.path


def _train(
    config: TrainConfig, training: Training, directory: RunDirectory, held: Lease, report: Report | None
) -> None:
    # Asked again, now that nobody else can write here.
    directory.open(config)
    if directory.is_finished(config.steps):
        return
    checkpoint = directory.checkpoints.newest()
    if checkpoint is not None:
        training.restore(checkpoint)
        held.check()
        directory.checkpoints.set_aside(newer_than=training.steps)
    directory.start(config, resolved=resolve(config, training), steps=training.steps)
    observer = Observer(config, directory, held, report, training)
    try:
        with observer.logs(training.steps) as logs:
            training.learn(config.steps, progress=logs.progress, events=directory.path, listeners=logs.listeners)
            logs.listeners.on_checkpoint(training.steps, training.snapshot())
        held.check()
        export(training, directory)
    except LeaseLostError:
        # Whatever is written now would overwrite what another process says about its own work.
        raise
    except BaseException as error:
        _note_end(directory, held, observer.status, error)
        raise
    held.check()
    directory.finish(observer.finished(training))


def _note_end(directory: RunDirectory, held: Lease, status: Status, error: BaseException) -> None:
    state: State = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
    said = failure(error, directory) if is_full_disk(error) else one_line(error)
    try:
        held.check()
        directory.finish(replace(status, state=state, error=said), traceback=traceback.format_exc())
    except LeaseLostError:
        # The end of this process is not the end of the run.
        return
    except OSError as trouble:
        # The error that ended the run matters more than the one that keeps us from writing it down.
        warnings.warn(f"{str(directory.status)!r} still says that the run is running: {trouble}", stacklevel=2)


def failure(error: BaseException, directory: RunDirectory) -> str:
    """Why a run broke off, and where it will go on, in one line."""
    why = f"the disk of {str(directory.path)!r} is full: {error}" if is_full_disk(error) else one_line(error)
    steps = directory.checkpoints.newest_steps
    if steps is None:
        return f"{why}; there is no checkpoint yet: the same command starts anew"
    return f"{why}; the last checkpoint, after {steps:,} steps, is kept: the same command goes on from there"


def check_names(config: TrainConfig) -> None:
    """Raise a ValueError for an algorithm, a task or a reward that there is not, before anything is built."""
    algorithm_class(config.algo)
    register(find_task(config.task))
    if config.reward != NO_REWARD:
        check_parameters(config.reward, {})


def prepare(config: TrainConfig) -> Training:
    """Build environments, algorithm and bonus. Nothing is written; a wrong name or value is a ValueError."""
    env = make_vec_env(
        **env_settings(config),
        n_envs=config.n_envs,
        seed=config.seed,
        sparse=config.sparse,
        threads=_emulator_threads(config),
    )
    model = make_algorithm(
        config.algo,
        env,
        seed=config.seed,
        device=config.device,
        trainer=config.trainer,
        parameters=_algorithm_parameters(config, env.observation_space),
    )
    training = Training(model=model)
    if config.reward != NO_REWARD:
        training.intrinsic = _make_bonus(config, model.observation_space, model.action_space)
        training.check()
    if config.eval_every:
        training.evaluation_env = make_vec_env(**env_settings(config), seed=config.seed + EVALUATION_SEED)
    return training


def resolve(config: TrainConfig, training: Training) -> dict[str, Any]:
    """What the config leaves to defaults, as it was in this training."""
    reward = training.intrinsic.reward if training.intrinsic is not None else None
    return {
        "method": config.method,
        "device": str(training.model.device),
        "algorithm": type(training.model).__name__,
        "torch_threads": config.torch_threads,
        "emulator_threads": _emulator_threads(config),
        "algo_params": algorithm_parameters(
            config.algo,
            training.model.observation_space,
            _algorithm_parameters(config, training.model.observation_space),
        ),
        "reward_params": {} if reward is None else asdict(reward.config),
    }


def export(training: Training, directory: RunDirectory) -> None:
    """Write the end of a training for those who use SB3 directly."""
    with replacing(directory.model) as path:
        training.save_model(path)
    if training.normalization_state():
        training.save_normalization(directory.normalization)
        training.save_vec_normalize(directory.vec_normalize)
    if training.intrinsic is not None:
        training.intrinsic.save(directory.bonus)


def one_line(error: BaseException) -> str:
    """An error as tables show it."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped by the user"
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def env_settings(config: TrainConfig) -> dict[str, Any]:
    """What the environments of training and evaluation share."""
    return {"task": config.task, "normalize": config.normalize, "gamma": config.algo_params.get("gamma", 0.99)}


def _emulator_threads(config: TrainConfig) -> int:
    # Games are images, whose networks go to a GPU where there is one.
    return emulator_threads(config, on_gpu=is_gpu(config.device))


def _algorithm_parameters(config: TrainConfig, observation_space: Space) -> dict[str, Any]:
    """What goes to the algorithm's constructor: the paper's networks, if they are asked for, and what is set."""
    if config.network == "sb3":
        return dict(config.algo_params)
    if config.algo not in PAPER_NETWORKS:
        raise ValueError(f"network 'paper' is made for {', '.join(PAPER_NETWORKS)}, not for algo {config.algo!r}")
    policy, policy_kwargs = paper_policy(observation_space, batch_norm=config.batch_norm)
    return {"policy": policy, "policy_kwargs": policy_kwargs, **config.algo_params}


def read_source(source: Path, *, trust: bool) -> Snapshot:
    """What `init_from` names: the newest checkpoint of a run or, if it is trusted, a file that SB3 saved."""
    if source.is_file():
        return read_export(source, RunDirectory(source.parent).normalization, trust=trust)
    snapshot = RunDirectory(source).checkpoints.newest()
    if snapshot is None:
        raise ValueError(f"init_from {str(source)!r} holds no checkpoint of a run")
    return snapshot


def _make_bonus(config: TrainConfig, observation_space: Space, action_space: Space) -> IntrinsicRewardCallback:
    # The spaces are the model's own: images are channels first there, and the bonus sees what the policy sees.
    parameters = {"seed": config.seed, "normalize": config.normalize_bonus, **config.reward_params}
    check_parameters(config.reward, parameters)
    reward = make_reward(config.reward, observation_space, action_space, n_envs=config.n_envs, **parameters)
    callback = IntrinsicRewardCallback(
        reward,
        weight=config.weight,
        decay=config.decay,
        decay_per=config.decay_per,
        extrinsic_weight=config.extrinsic_weight,
    )
    callback.watch = BalanceWatch(ON_COMMAND_LINE)
    return callback
