"""Play one episode with a trained agent: pictures, rewards and the bonus of each step."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from revd.envs.tasks import Engine, find_task
from revd.names import reward_names
from revd.rewards.segment_memory import SegmentMemory
from revd.rollout import Rollout, map_observations
from revd.runs.config import NO_COVERAGE
from revd.runs.directory import RunDirectory
from revd.runs.train import env_settings, prepare
from revd.training.episode_player import play_episode
from revd.training.initial_policy import load_saved_model
from revd.training.vec_env import make_vec_env

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from revd.rewards import IntrinsicReward
    from revd.runs.config import TrainConfig
    from revd.training.episode_player import PlayedEpisode
    from revd.training.session import Training
    from revd.training.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchedEpisode:
    """One episode that a trained agent played.

    Attributes:
        config: The agent's run.
        trained_steps: Steps of training in its checkpoint.
        frames: The n pictures, (height, width, 3) each: the one at t shows the state in which action t was taken.
        rewards: (n,), the task's own rewards.
        bonus: (n,), the bonus of the run's exploration reward before weighting; None for a run without one.
    """

    config: TrainConfig
    trained_steps: int
    frames: tuple[NDArray[np.uint8], ...]
    rewards: NDArray[np.float64]
    bonus: NDArray[np.float32] | None


def watch(
    path: Path, *, seed: int = 0, max_steps: int = 1_000, deterministic: bool = True, trust: bool = False
) -> WatchedEpisode:
    """Play one episode with the newest checkpoint of the run in `path`. Nothing is written there.

    Sets the global random generators, by the run's seed and then by `seed`. A checkpoint holds only tensors and JSON,
    so that an untrusted run can be watched without executing its code.

    Args:
        path: A run directory; its training may still be running.
        seed: Of the environment and of the policy's draws.
        max_steps: A longer episode is cut.
        deterministic: Take the most probable action rather than a draw.
        trust: Import what the run's task and reward name, as in `package:Task-v0` and `module:Class`.
    """
    _check_numbers(seed, max_steps)
    config, checkpoint = _read_run(RunDirectory(path), trust=trust)
    torch.set_num_threads(config.torch_threads)
    with closing(prepare(_without_training_options(config))) as training:
        training.restore(checkpoint)
        env = make_vec_env(**env_settings(config), seed=seed, render_mode="rgb_array")
        with closing(env):
            played = play_episode(training.model, env, seed=seed, max_steps=max_steps, deterministic=deterministic)
        return WatchedEpisode(
            config=config,
            trained_steps=training.steps,
            frames=played.frames,
            rewards=played.rewards,
            bonus=_bonus(training, played),
        )


def _read_run(run: RunDirectory, *, trust: bool) -> tuple[TrainConfig, Snapshot]:
    """The config and the newest checkpoint of a run; a ValueError explains why it cannot be watched."""
    config = run.read_config()
    if config is None:
        raise ValueError(f"there is no run in {str(run.path)!r}: it holds no {run.config.name}")
    if not trust:
        _refuse_imports(run, config)
    checkpoint = run.checkpoints.newest()
    if checkpoint is None:
        raise ValueError(
            f"the run in {str(run.path)!r} has no checkpoint yet: one is written every {config.checkpoint_every:,} "
            "steps and at the end of the training"
        )
    return config, checkpoint


def _refuse_imports(run: RunDirectory, config: TrainConfig) -> None:
    """Raise a ValueError if a name in the config says what Python should import: PACKAGE:TASK or MODULE:CLASS."""
    for kind, name in (("task", config.task), *(("reward", word) for word in reward_names(config.reward))):
        module, separator, _ = name.partition(":")
        if separator:
            raise ValueError(
                f"the run in {str(run.path)!r} has the {kind} {name!r}, for which Python would import {module!r} and "
                "so execute it; if you trust the run, add --trust"
            )


def watch_export(
    path: Path, config: TrainConfig, *, seed: int = 0, max_steps: int = 1_000, deterministic: bool = True, trust: bool
) -> WatchedEpisode:
    """Play one episode with a model that SB3 saved, without a bonus and without a run directory.

    Args:
        path: SB3's zip. It contains pickles.
        config: The task, the algorithm, and how observations are normalised, which the file does not contain.
        seed: Of the environment and of the policy's draws.
        max_steps: A longer episode is cut.
        deterministic: Take the most probable action rather than a draw.
        trust: Must be True, because loading the file executes code in its pickles.
    """
    _check_numbers(seed, max_steps)
    with closing(make_vec_env(**env_settings(config), seed=seed, render_mode="rgb_array")) as env:
        model = load_saved_model(config.algo, path, env, trust=trust)
        played = play_episode(model, env, seed=seed, max_steps=max_steps, deterministic=deterministic)
        return WatchedEpisode(
            config=config, trained_steps=model.num_timesteps, frames=played.frames, rewards=played.rewards, bonus=None
        )


def check_drawable(config: TrainConfig) -> None:
    """Raise a ValueError if the task's environment cannot draw."""
    make_vec_env(config.task, render_mode="rgb_array").close()


def _check_numbers(seed: int, max_steps: int) -> None:
    for name, value, smallest in (("seed", seed, 0), ("steps", max_steps, 1)):
        if value < smallest:
            raise ValueError(f"{name} must be at least {smallest}, got {value}")


def _without_training_options(config: TrainConfig) -> TrainConfig:
    """The training without options that only learning needs; on the CPU, since the run may be another machine's.

    An episode's visits are not counted: the run's `coverage` may name a module, which is not imported.
    """
    engine: Engine = "auto" if find_task(config.task).family == "envpool" else "gymnasium"
    return replace(
        config,
        coverage=NO_COVERAGE,
        engine=engine,
        device="cpu",
        eval_every=0,
        init_from=None,
        init_value=False,
        init_optimizer=False,
    )


def _bonus(training: Training, played: PlayedEpisode) -> NDArray[np.float32] | None:
    """The bonus if the played episode were the next rollout of the run's first environment.


    REVD compares it with that environment's last rollout or, with boundary="episode", its last episode.
    """
    if training.intrinsic is None:
        return None
    assert training.intrinsic.reward is not None
    reward = first_environment(training.intrinsic.reward)
    reward.end_episodes()
    rollout = _padded_to(training.model.n_steps, played.rollout)
    bonus: NDArray[np.float32] = reward.compute(rollout)[: len(played.frames), 0].cpu().numpy()
    return bonus


def first_environment(reward: IntrinsicReward) -> IntrinsicReward:
    """Copy a reward for its first environment alone, with its models, statistics and memory."""
    alone = reward.fresh(1)
    memories = tuple(f"{name}." for name, part in reward.named_modules() if isinstance(part, SegmentMemory))
    state = reward.state_dict()
    alone.load_state_dict({name: tensor[:1] if name.startswith(memories) else tensor for name, tensor in state.items()})
    return alone


def _padded_to(n_steps: int, rollout: Rollout) -> Rollout:
    """Pad an episode that is shorter than the run's rollouts: the reward may need k neighbours."""
    missing = max(n_steps - rollout.n_steps, 0)

    def padded(values: Tensor) -> Tensor:
        return torch.cat([values, values[-1:].expand(missing, *values.shape[1:])])

    return Rollout(
        observations=map_observations(padded, rollout.observations),
        actions=padded(rollout.actions),
        next_observations=map_observations(padded, rollout.successors),
        dones=padded(rollout.dones),
        lengths=torch.tensor([rollout.n_steps]),
    )
