"""Vectorised environments by task name, and the statistics of VecNormalize as plain tensors."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, get_args

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize, unwrap_vec_normalize

from revd.envs.make import make_env, register
from revd.envs.sparse import SparseReward, check_probability
from revd.envs.tasks import Task, find_task
from revd.names import unknown_name
from revd.training.env_checks import CheckedEnv, CheckedVecEnv

Normalize = Literal["none", "observations", "rewards", "both"]


def make_vec_env(
    task: str,
    *,
    n_envs: int = 1,
    seed: int = 0,
    normalize: Normalize = "none",
    gamma: float = 0.99,
    sparse: float | None = None,
    render_mode: str | None = None,
    threads: int = 1,
) -> VecEnv:
    """
    `n_envs` copies of a task in this process, seeded, each inside a Monitor.

    The monitors sit below everything that changes rewards, so that the returns they report are the task's own.
    `gamma` is the algorithm's discount: VecNormalize scales rewards by the spread of the discounted return.
    `sparse` is the probability with which each step's reward is zeroed, None for never. `threads` step Atari games;
    other tasks are stepped one after the other. What they give is checked; an EnvironmentFault names one that broke.
    """
    if normalize not in get_args(Normalize):
        raise ValueError(unknown_name("value of normalize", normalize, get_args(Normalize)))
    if n_envs < 1:
        raise ValueError(f"n_envs must be at least 1, got {n_envs}")
    if sparse is not None:
        check_probability(sparse)
    found = find_task(task)
    register(found)
    games: VecEnv
    if found.suite == "atari":
        games = _atari(found, n_envs, sparse=sparse, render_mode=render_mode, threads=threads)
    else:
        games = DummyVecEnv([_factory(found, index, seed + index, sparse, render_mode) for index in range(n_envs)])
    env = CheckedVecEnv(games, task)
    env.seed(seed)
    if normalize == "none":
        return env
    return _normalized(env, normalize, gamma)


def normalization_state(env: VecEnv) -> dict[str, torch.Tensor]:
    """Everything that the VecNormalize around `env` has learnt; empty where there is none."""
    wrapper = unwrap_vec_normalize(env)
    if wrapper is None:
        return {}
    state = {"returns": torch.from_numpy(wrapper.returns.copy())}
    for prefix, statistics in _statistics(wrapper):
        state[f"{prefix}.mean"] = torch.as_tensor(np.array(statistics.mean))
        state[f"{prefix}.var"] = torch.as_tensor(np.array(statistics.var))
        state[f"{prefix}.count"] = torch.tensor(statistics.count, dtype=torch.float64)
    return state


def load_normalization_state(env: VecEnv, state: Mapping[str, torch.Tensor]) -> None:
    """Go on with statistics that `normalization_state` gave for an environment of the same spaces."""
    wrapper = unwrap_vec_normalize(env)
    expected = {key: value.shape for key, value in normalization_state(env).items()}
    given = {key: value.shape for key, value in state.items()}
    if given != expected:
        raise ValueError(f"normalisation statistics {given} do not fit this environment, which needs {expected}")
    if wrapper is None:
        return
    wrapper.returns = state["returns"].numpy().copy()
    for prefix, statistics in _statistics(wrapper):
        statistics.mean = state[f"{prefix}.mean"].numpy().copy()
        statistics.var = state[f"{prefix}.var"].numpy().copy()
        statistics.count = float(state[f"{prefix}.count"])


def _atari(task: Task, n_envs: int, **options: Any) -> VecEnv:
    # Loads ale-py, which a user of other tasks need not have.
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


def _normalized(env: VecEnv, normalize: Normalize, gamma: float) -> VecNormalize:
    observations = normalize in ("observations", "both")
    keys = None
    if observations:
        keys = _normalizable_keys(env.observation_space, normalize)
    return VecNormalize(
        env,
        norm_obs=observations,
        norm_reward=normalize in ("rewards", "both"),
        gamma=gamma,
        norm_obs_keys=keys,
    )


def _normalizable_keys(space: spaces.Space[Any], normalize: Normalize) -> list[str] | None:
    """The keys of a Dict space that hold real numbers; None for a space that is one such array."""
    if isinstance(space, spaces.Dict):
        keys = [key for key, entry in space.spaces.items() if _is_real(entry)]
        if keys:
            return keys
    elif _is_real(space):
        return None
    raise ValueError(
        f"normalize={normalize!r} needs observations of real numbers, and this task gives {space};"
        " use normalize='rewards' or 'none' (networks scale images by themselves)"
    )


def _is_real(space: spaces.Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)


def _statistics(wrapper: VecNormalize) -> Iterator[tuple[str, RunningMeanStd]]:
    yield "rewards", wrapper.ret_rms
    if not wrapper.norm_obs:
        return
    if isinstance(wrapper.obs_rms, dict):
        for key, statistics in wrapper.obs_rms.items():
            yield f"observations.{key}", statistics
    else:
        yield "observations", wrapper.obs_rms
