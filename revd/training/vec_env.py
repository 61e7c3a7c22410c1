"""Vectorised environments by task name."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from revd.envs.engines import choose_engine
from revd.envs.make import make_env, register
from revd.envs.sparse import SparseReward, check_probability
from revd.envs.tasks import Engine, Task, find_task
from revd.names import unknown_name
from revd.training.checked_vec_env import CheckedVecEnv
from revd.training.env_checks import CheckedEnv
from revd.training.envpool_vec_env import EnvPoolVecEnv

#: What VecNormalize normalises.
NormalizeMode = Literal["none", "observations", "rewards", "both"]


def make_vec_env(
    task: str,
    *,
    n_envs: int = 1,
    seed: int = 0,
    normalize: NormalizeMode = "none",
    gamma: float = 0.99,
    sparse: float | None = None,
    render_mode: str | None = None,
    threads: int = 1,
    engine: Engine = "auto",
) -> VecEnv:
    """Make seeded copies of a task in this process, each inside a Monitor.

    The monitors are inside all wrappers that change rewards, so that they report the task's own returns. The values
    that environments return are checked; an EnvironmentFault names the environment that failed.

    Args:
        task: Name of the task.
        n_envs: Number of copies.
        seed: Seed of the first copy; the following ones count up.
        normalize: What VecNormalize normalises.
        gamma: The algorithm's discount factor: VecNormalize divides rewards by the spread of discounted returns.
        sparse: Probability with which a step's reward is set to zero; None for never.
        render_mode: Gymnasium's render mode.
        threads: Threads that step Atari games and EnvPool's environments; others are stepped one after the other.
        engine: The engine that steps the task, see `revd.envs.engines`; with a `render_mode` always Gymnasium.
    """
    if normalize not in get_args(NormalizeMode):
        raise ValueError(unknown_name("value of normalize", normalize, get_args(NormalizeMode)))
    if n_envs < 1:
        raise ValueError(f"n_envs must be at least 1, got {n_envs}")
    if sparse is not None:
        check_probability(sparse)
    found = find_task(task)
    bare: VecEnv
    if render_mode is None and choose_engine(found, engine) == "envpool":
        bare = EnvPoolVecEnv(found.gymnasium_id, n_envs, sparse=sparse, threads=threads)
    else:
        bare = _gymnasium_vec_env(found, n_envs, seed=seed, sparse=sparse, render_mode=render_mode, threads=threads)
    env = CheckedVecEnv(bare, task)
    env.seed(seed)
    return env if normalize == "none" else _normalized(env, normalize, gamma)


def _gymnasium_vec_env(
    task: Task, n_envs: int, *, seed: int, sparse: float | None, render_mode: str | None, threads: int
) -> VecEnv:
    register(task)
    if task.family == "atari":
        return _atari(task, n_envs, sparse=sparse, render_mode=render_mode, threads=threads)
    return DummyVecEnv([_factory(task, index, seed + index, sparse, render_mode) for index in range(n_envs)])


def _atari(task: Task, n_envs: int, **options: Any) -> VecEnv:
    # Imported here, because ale-py is optional.
    from revd.envs.atari import rom_name
    from revd.training.atari_vec_env import AtariVecEnv

    return AtariVecEnv(rom_name(task.gymnasium_id), n_envs, **options)


def _factory(
    task: Task, index: int, seed: int, sparse: float | None, render_mode: str | None
) -> Callable[[], gymnasium.Env[Any, Any]]:
    def make() -> gymnasium.Env[Any, Any]:
        env: gymnasium.Env[Any, Any] = Monitor(CheckedEnv(make_env(task, render_mode=render_mode), index))
        env.action_space.seed(seed)
        return env if sparse is None else SparseReward(env, sparse)

    return make


def _normalized(env: VecEnv, normalize: NormalizeMode, gamma: float) -> VecNormalize:
    observations = normalize in ("observations", "both")
    return VecNormalize(
        env,
        norm_obs=observations,
        norm_reward=normalize in ("rewards", "both"),
        gamma=gamma,
        norm_obs_keys=_normalizable_keys(env.observation_space, normalize) if observations else None,
    )


def _normalizable_keys(space: spaces.Space[Any], normalize: NormalizeMode) -> list[str] | None:
    """Return the keys of a Dict space that hold real numbers; None for a Box of real numbers."""
    if isinstance(space, spaces.Dict):
        keys = [key for key, entry in space.spaces.items() if _is_real(entry)]
        if keys:
            return keys
    elif _is_real(space):
        return None
    raise ValueError(
        f"normalize={normalize!r} needs observations of real numbers, and this task gives {space};"
        " use normalize='rewards' or 'none' (the networks scale images themselves)"
    )


def _is_real(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)
