"""One training, from its config to its run directory."""

from __future__ import annotations

import traceback
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from revd.experiments.config import NO_REWARD, TrainConfig
from revd.experiments.observer import Observer, Report
from revd.experiments.rundir import RunDirectory, State, replacing
from revd.rewards import check_parameters, make_reward
from revd.sb3 import IntrinsicRewardCallback
from revd.sb3.algorithms import algorithm_parameters, make_algorithm
from revd.sb3.environments import make_vec_env
from revd.sb3.policies import paper_policy
from revd.sb3.training import Training

if TYPE_CHECKING:
    from revd.spaces import Space

#: The algorithms whose policies the paper's networks can be: neither recurrent nor masked.
PAPER_NETWORKS = ("ppo", "a2c", "trpo")
#: Added to the seed of a training for the environments in which it is evaluated.
EVALUATION_SEED = 50_021


def train(config: TrainConfig, *, report: Report | None = None) -> Path:
    """
    Train, and return the run directory; a run that the directory already holds goes on from its last checkpoint.

    What is wrong with a config is raised before anything is written. `report` is called after each rollout.
    Torch's number of threads is set for the whole process.
    """
    torch.set_num_threads(config.threads)
    directory = RunDirectory(config.directory)
    directory.open(config)
    if directory.is_finished(config.steps):
        return directory.path
    with closing(prepare(config)) as training:
        if config.init_from is not None and not directory.checkpoints.exist:
            _start_from(config, training, config.init_from)
        with directory.locked():
            _train(config, training, directory, report)
    return directory.path


def _train(config: TrainConfig, training: Training, directory: RunDirectory, report: Report | None) -> None:
    # Asked again, now that nobody else can write here.
    directory.open(config)
    if directory.is_finished(config.steps):
        return
    checkpoint = directory.checkpoints.newest()
    if checkpoint is not None:
        training.restore(checkpoint)
    directory.start(config, resolved=resolve(config, training), steps=training.steps)
    observer = Observer(config, directory, report, training)
    try:
        with observer.logs(training.steps) as logs:
            training.learn(config.steps, progress=logs.progress, events=directory.path, listeners=logs.listeners)
        save(training, directory)
    except BaseException as error:
        state: State = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        ended = replace(observer.status, state=state, error=one_line(error))
        directory.finish(ended, traceback=traceback.format_exc())
        raise
    directory.finish(replace(observer.status, state="finished"))


def prepare(config: TrainConfig) -> Training:
    """Build environments, algorithm and bonus. Nothing is written; a wrong name or value is a ValueError."""
    env = make_vec_env(
        **env_settings(config),
        n_envs=config.n_envs,
        seed=config.seed,
        sparse=config.sparse,
        threads=config.threads,
    )
    model = make_algorithm(
        config.algo,
        env,
        seed=config.seed,
        device=config.device,
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
        "algo_params": algorithm_parameters(
            config.algo,
            training.model.observation_space,
            _algorithm_parameters(config, training.model.observation_space),
        ),
        "reward_params": {} if reward is None else asdict(reward.config),
    }


def save(training: Training, directory: RunDirectory) -> None:
    """Keep the end of a training: a checkpoint to go on from, and exports for those who use SB3 directly."""
    directory.checkpoints.write(training.steps, training.snapshot())
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


def env_settings(config: TrainConfig) -> dict[str, Any]:
    """What the environments of training and evaluation share."""
    return {"task": config.task, "normalize": config.normalize, "gamma": config.algo_params.get("gamma", 0.99)}


def _algorithm_parameters(config: TrainConfig, observation_space: Space) -> dict[str, Any]:
    """What goes to the algorithm's constructor: the paper's networks, if they are asked for, and what is set."""
    if config.network == "sb3":
        return dict(config.algo_params)
    if config.algo not in PAPER_NETWORKS:
        raise ValueError(f"network 'paper' is made for {', '.join(PAPER_NETWORKS)}, not for algo {config.algo!r}")
    policy, policy_kwargs = paper_policy(observation_space, batch_norm=config.batch_norm)
    return {"policy": policy, "policy_kwargs": policy_kwargs, **config.algo_params}


def _start_from(config: TrainConfig, training: Training, source: Path) -> None:
    snapshot = RunDirectory(source).checkpoints.newest()
    if snapshot is None:
        raise ValueError(f"init_from {str(source)!r} holds no checkpoint of a run")
    training.start_from(snapshot, value=config.init_value, optimizer=config.init_optimizer)


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
