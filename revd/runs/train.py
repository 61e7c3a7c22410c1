"""One training: its config goes in, a run directory comes out."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from revd.coverage.defaults import default_grid
from revd.coverage.grid import CellFunction, Grid
from revd.coverage.lookup import import_cells
from revd.envs.engines import choose_engine
from revd.envs.make import register
from revd.envs.tasks import find_task
from revd.rewards import check_parameters, make_reward
from revd.runs.config import AUTO, NO_COVERAGE, NO_REWARD, TrainConfig
from revd.runs.cpu_threads import emulator_threads
from revd.runs.directory import RunDirectory, State, Status
from revd.runs.lease import Lease, LeaseLostError
from revd.runs.writer import Report, RunWriter
from revd.sb3 import CoverageCallback, IntrinsicRewardCallback
from revd.storage.atomic import is_full_disk, replacing
from revd.training.algorithms import algorithm_class, algorithm_parameters, is_gpu, make_algorithm
from revd.training.env_checks import TrainingFault
from revd.training.initial_policy import read_saved_policy
from revd.training.policies import paper_policy
from revd.training.session import Training
from revd.training.vec_env import make_vec_env
from revd.weighting.balance_warnings import ON_COMMAND_LINE

if TYPE_CHECKING:
    from revd.spaces import Space
    from revd.training.snapshot import Snapshot

#: The algorithms whose policies the paper's networks can be: neither recurrent nor masked.
PAPER_NETWORKS = ("ppo", "a2c", "trpo")
#: Added to a training's seed for its evaluation environments.
EVALUATION_SEED = 50_021


class RunFailedError(RuntimeError):
    """A training that failed because of its environment or a full disk. It can be resumed."""


def train(config: TrainConfig, *, report: Report | None = None, trust: bool = False) -> Path:
    """Train, and return the run directory. A run that is already there resumes from its last checkpoint.

    Args:
        config: The training. A wrong one is a ValueError, before anything is written.
        report: Called after each rollout.
        trust: Whether `init_from` may be a file of SB3's. Loading it can execute code.

    Raises:
        RunFailedError: The environment failed, or the disk is full.
    """
    run = RunDirectory(config.directory)
    run.check(config)
    if not run.is_finished(config.steps):
        train_in(run, config, report=report, trust=trust)
    return run.path


def train_in(run: RunDirectory, config: TrainConfig, *, report: Report | None = None, trust: bool = False) -> None:
    """Train in a directory that the caller has checked; `run.path` may differ from `config.directory`.

    The directory is checked again once it is locked. Sets torch's number of threads for the whole process.
    """
    torch.set_num_threads(config.torch_threads)
    settings = replace(run.completed(config), engine=run.engine_of(config), coverage=run.coverage_of(config))
    with closing(prepare(settings)) as training:
        if config.init_from is not None and run.checkpoints.newest_steps is None:
            training.start_from(
                read_source(config.init_from, trust=trust), value=config.init_value, optimizer=config.init_optimizer
            )
        try:
            with run.locked() as lease:
                run.check(config)
                if not run.is_finished(config.steps):
                    _train_locked(config, training, run, lease, report, resolve(settings, training))
        except (TrainingFault, OSError) as error:
            if isinstance(error, OSError) and not is_full_disk(error):
                raise
            raise RunFailedError(failure_message(error, run)) from error


def _train_locked(
    config: TrainConfig,
    training: Training,
    run: RunDirectory,
    lease: Lease,
    report: Report | None,
    resolved: Mapping[str, Any],
) -> None:
    _restore_newest(training, run, lease)
    run.start(config, resolved=resolved, steps=training.steps)
    writer = RunWriter(config, run, lease, report, training)
    try:
        with writer.open_logs(training.steps) as logs:
            training.learn(config.steps, progress=logs.progress, events=run.path, listeners=logs.listeners)
            logs.listeners.on_checkpoint(training.steps, training.snapshot())
        lease.check()
        export(training, run)
    except LeaseLostError:
        # Another process trains here now: writing would overwrite its files.
        raise
    except BaseException as error:
        _record_failure(run, lease, writer.status, error)
        raise
    lease.check()
    run.finish(writer.final_status(training))


def _restore_newest(training: Training, run: RunDirectory, lease: Lease) -> None:
    checkpoint = run.checkpoints.newest()
    if checkpoint is not None:
        training.restore(checkpoint)
        lease.check()
        run.checkpoints.set_aside(newer_than=training.steps)


def _record_failure(run: RunDirectory, lease: Lease, status: Status, error: BaseException) -> None:
    state: State = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
    message = failure_message(error, run) if is_full_disk(error) else one_line(error)
    try:
        lease.check()
        run.finish(replace(status, state=state, error=message), traceback=traceback.format_exc())
    except LeaseLostError:
        # Another process has resumed the run, so it has not failed.
        return
    except OSError as write_error:
        # The first error is the one to report.
        warnings.warn(f"{str(run.status)!r} still says that the run is running: {write_error}", stacklevel=2)


def failure_message(error: BaseException, run: RunDirectory) -> str:
    """Why a run failed, and from where it resumes, in one line."""
    reason = f"the disk of {str(run.path)!r} is full: {error}" if is_full_disk(error) else one_line(error)
    steps = run.checkpoints.newest_steps
    if steps is None:
        return f"{reason}; there is no checkpoint yet: the same command starts anew"
    return f"{reason}; the last checkpoint, after {steps:,} steps, is kept: the same command resumes from it"


def check_names(config: TrainConfig) -> None:
    """Raise a ValueError for an unknown algorithm, task or reward, before anything is built."""
    algorithm_class(config.algo)
    task = find_task(config.task)
    if choose_engine(task, config.engine) == "gymnasium":
        register(task)
    if config.reward != NO_REWARD:
        check_parameters(config.reward, {})
    if config.coverage not in (AUTO, NO_COVERAGE):
        import_cells(config.coverage)


def prepare(config: TrainConfig) -> Training:
    """Build environments, algorithm and bonus. Writes nothing; a wrong name or value is a ValueError."""
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
    cell = cells_of(config, env.observation_space)
    if cell is not None:
        training.coverage = CoverageCallback(cell)
    training.check()
    if config.eval_every:
        training.evaluation_env = make_vec_env(**env_settings(config), seed=config.seed + EVALUATION_SEED)
    return training


def resolve(config: TrainConfig, training: Training) -> dict[str, Any]:
    """The values that the training uses where its config leaves them to defaults."""
    reward = training.intrinsic.reward if training.intrinsic is not None else None
    return {
        "method": config.method,
        "coverage": None if training.coverage is None else training.coverage.description,
        "engine": choose_engine(find_task(config.task), config.engine),
        "device": str(training.model.device),
        "algorithm": type(training.model).__name__,
        "torch_threads": config.torch_threads,
        "yield_to_task": config.yield_to_task,
        "emulator_threads": _emulator_threads(config),
        "algo_params": algorithm_parameters(
            config.algo,
            training.model.observation_space,
            _algorithm_parameters(config, training.model.observation_space),
        ),
        "reward_params": {} if reward is None else reward.settings,
    }


def export(training: Training, run: RunDirectory) -> None:
    """Write the model, its normalisation and the bonus's state, as SB3 and `callback.load` read them."""
    with replacing(run.model) as path:
        training.save_model(path)
    if training.normalization_state():
        training.save_normalization(run.normalization)
        training.save_vec_normalize(run.vec_normalize)
    if training.intrinsic is not None:
        training.intrinsic.save(run.bonus)


def cells_of(config: TrainConfig, space: Space) -> Grid | CellFunction | None:
    """What a training counts the visits of; None if it counts nothing."""
    if config.coverage == NO_COVERAGE:
        return None
    if config.coverage == AUTO:
        return default_grid(find_task(config.task).gymnasium_id, space)
    return import_cells(config.coverage)


def one_line(error: BaseException) -> str:
    """Shorten an error to one line, for tables."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped by the user"
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def env_settings(config: TrainConfig) -> dict[str, Any]:
    """Arguments of `make_vec_env` that training and evaluation share."""
    return {
        "task": config.task,
        "engine": config.engine,
        "normalize": config.normalize,
        "gamma": config.algo_params.get("gamma", 0.99),
    }


def _emulator_threads(config: TrainConfig) -> int:
    # Games are images, so their networks use a GPU if there is one; other networks stay on the CPU.
    is_game = find_task(config.task).family == "atari"
    return emulator_threads(config, on_gpu=is_game and is_gpu(config.device))


def _algorithm_parameters(config: TrainConfig, observation_space: Space) -> dict[str, Any]:
    """Keyword arguments of the algorithm: the paper's networks if the config asks for them, and its parameters."""
    if config.network == "sb3":
        return dict(config.algo_params)
    if config.algo not in PAPER_NETWORKS:
        raise ValueError(f"network 'paper' is made for {', '.join(PAPER_NETWORKS)}, not for algo {config.algo!r}")
    policy, policy_kwargs = paper_policy(observation_space, batch_norm=config.batch_norm)
    return {"policy": policy, "policy_kwargs": policy_kwargs, **config.algo_params}


def read_source(source: Path, *, trust: bool) -> Snapshot:
    """Read `init_from`: the newest checkpoint of a run or, if trusted, a file that SB3 saved."""
    if source.is_file():
        return read_saved_policy(source, RunDirectory(source.parent).normalization, trust=trust)
    snapshot = RunDirectory(source).checkpoints.newest()
    if snapshot is None:
        raise ValueError(f"init_from {str(source)!r} contains no checkpoint of a run")
    return snapshot


def _make_bonus(config: TrainConfig, observation_space: Space, action_space: Space) -> IntrinsicRewardCallback:
    # The spaces are the model's, with images channels first: the bonus sees what the policy sees.
    parameters = {"seed": config.seed, "normalize": config.normalize_bonus, **config.reward_params}
    check_parameters(config.reward, parameters)
    reward = make_reward(config.reward, observation_space, action_space, n_envs=config.n_envs, **parameters)
    callback = IntrinsicRewardCallback(
        reward,
        weight=config.weight,
        strength=config.strength,
        yield_to_task=config.yield_to_task,
        decay=config.decay,
        decay_per=config.decay_per,
        extrinsic_weight=config.extrinsic_weight,
    )
    callback.weighting.advise_with(ON_COMMAND_LINE)
    return callback
