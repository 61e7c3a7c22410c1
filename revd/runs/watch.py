"""An episode of a trained agent, from its run directory to pictures, rewards and the bonus of every step."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import torch

from revd.rewards.segments import SegmentMemory
from revd.rollout import Rollout, map_observations
from revd.runs.directory import RunDirectory
from revd.runs.train import env_settings, prepare
from revd.training.episode_player import play
from revd.training.sb3_models import load_export
from revd.training.vec_env import make_vec_env

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from revd.rewards import IntrinsicReward
    from revd.runs.config import TrainConfig
    from revd.training.episode_player import Play
    from revd.training.session import Training


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchedEpisode:
    """One episode of a run's agent.

    Attributes:
        config: The run.
        trained_steps: Steps of training in the checkpoint that was played.
        frames: The n pictures, (height, width, 3) each: the one at t shows the state in which action t was taken.
        rewards: (n,), the task's own rewards.
        bonus: (n,), what the run's exploration reward pays, before it is weighted; None for a run without one.
    """

    config: TrainConfig
    trained_steps: int
    frames: tuple[NDArray[np.uint8], ...]
    rewards: NDArray[np.float64]
    bonus: NDArray[np.float32] | None


def watch(
    path: Path, *, seed: int = 0, max_steps: int = 1_000, deterministic: bool = True, trust: bool = False
) -> WatchedEpisode:
    """
    Play one episode with the newest checkpoint of the run in `path`. Nothing is written there.

    A checkpoint is tensors and JSON, so that a run from elsewhere can be watched without executing what it holds.
    The global random generators are set, by the run's seed and then by `seed`.

    Args:
        path: A run directory; its training may go on meanwhile.
        seed: Of the environment and of the policy's draws.
        max_steps: An episode that goes on after so many steps is cut.
        deterministic: Take the most probable action rather than a draw.
        trust: Import the package that the run's task names, as in `package:Task-v0`.
    """
    _check_numbers(seed, max_steps)
    directory = RunDirectory(path)
    config = directory.read_config()
    if config is None:
        raise ValueError(f"there is no run in {str(path)!r}: it holds no {directory.config.name}")
    package, separator, _ = config.task.partition(":")
    if separator and not trust:
        raise ValueError(
            f"the run in {str(path)!r} has the task {config.task!r}, for which Python would import {package!r} and so "
            "execute it; if you know where the run comes from, say --trust"
        )
    checkpoint = directory.checkpoints.newest()
    if checkpoint is None:
        raise ValueError(
            f"the run in {str(path)!r} has no checkpoint yet: one is written every {config.checkpoint_every:,} steps "
            "and at the end of the training"
        )
    torch.set_num_threads(config.torch_threads)
    with closing(prepare(_to_look_at(config))) as training:
        training.restore(checkpoint)
        env = make_vec_env(**env_settings(config), seed=seed, render_mode="rgb_array")
        with closing(env):
            played = play(training.model, env, seed=seed, max_steps=max_steps, deterministic=deterministic)
        return WatchedEpisode(
            config=config,
            trained_steps=training.steps,
            frames=played.frames,
            rewards=played.rewards,
            bonus=_bonus(training, played),
        )


def watch_export(
    path: Path, config: TrainConfig, *, seed: int = 0, max_steps: int = 1_000, deterministic: bool = True, trust: bool
) -> WatchedEpisode:
    """
    Play one episode with a model that SB3 saved, without a bonus: `watch` for those who have no run directory.

    Args:
        path: SB3's zip. It holds pickles.
        config: The task, the algorithm, and how observations are normalised; the file does not say.
        seed: Of the environment and of the policy's draws.
        max_steps: An episode that goes on after so many steps is cut.
        deterministic: Take the most probable action rather than a draw.
        trust: Must be True, for loading the file executes what its pickles say.
    """
    _check_numbers(seed, max_steps)
    with closing(make_vec_env(**env_settings(config), seed=seed, render_mode="rgb_array")) as env:
        model = load_export(config.algo, path, env, trust=trust)
        played = play(model, env, seed=seed, max_steps=max_steps, deterministic=deterministic)
        return WatchedEpisode(
            config=config, trained_steps=model.num_timesteps, frames=played.frames, rewards=played.rewards, bonus=None
        )


def check_drawable(config: TrainConfig) -> None:
    """Raise a ValueError if the task's environment cannot be made for drawing."""
    make_vec_env(config.task, render_mode="rgb_array").close()


def _check_numbers(seed: int, max_steps: int) -> None:
    for name, value, smallest in (("seed", seed, 0), ("steps", max_steps, 1)):
        if value < smallest:
            raise ValueError(f"{name} must be at least {smallest}, got {value}")


def _to_look_at(config: TrainConfig) -> TrainConfig:
    """The same training without what only learning needs; on the CPU, for the run may come from another machine."""
    return replace(config, device="cpu", eval_every=0, init_from=None, init_value=False, init_optimizer=False)


def _bonus(training: Training, played: Play) -> NDArray[np.float32] | None:
    """
    What the run's reward would pay if the played episode were the next rollout of its first environment.

    That environment's last rollout (or, with boundary="episode", its last episode) is what REVD compares with.
    """
    if training.intrinsic is None:
        return None
    assert training.intrinsic.reward is not None
    reward = first_environment(training.intrinsic.reward)
    reward.end_episodes()
    rollout = _at_least(training.model.n_steps, played.rollout)
    bonus: NDArray[np.float32] = reward.compute(rollout)[: len(played.frames), 0].cpu().numpy()
    return bonus


def first_environment(reward: IntrinsicReward) -> IntrinsicReward:
    """A copy of a reward for its first environment alone: the same models, statistics and memory."""
    alone = type(reward)(reward.observation_space, reward.action_space, 1, **asdict(reward.config))
    memories = tuple(f"{name}." for name, part in reward.named_modules() if isinstance(part, SegmentMemory))
    state = reward.state_dict()
    alone.load_state_dict({name: tensor[:1] if name.startswith(memories) else tensor for name, tensor in state.items()})
    return alone


def _at_least(n_steps: int, rollout: Rollout) -> Rollout:
    """Pad an episode that is shorter than the run's rollouts: its reward may refuse to look for k neighbours there."""
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
