"""Tasks in C++: EnvPool's environments, with the observations of the equivalent Gymnasium tasks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from revd.coverage.defaults import GRID_WORLDS

#: Converts a batch of EnvPool's observations.
Convert = Callable[[Any], Any]
#: Numbers of codes of a cell: what is in it, its colour, its state; those of `revd.envs.minigrid.CODES`.
CODES = (11, 6, 4)
SEED_LIMIT = 2**31
#: Where EnvPool has another version of a Gymnasium task: its id, and the options that make it the same.
VERSIONS: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "MiniGrid-MultiRoom-N4-S5-v1": (
        "MiniGrid-MultiRoom-N4-S5-v0",
        {"min_num_rooms": 4, "max_num_rooms": 4, "max_episode_steps": 80},
    ),
}


def is_installed() -> bool:
    """Whether EnvPool can be imported."""
    return find_spec("envpool") is not None


def task_ids() -> list[str]:
    """Every id that EnvPool, which must be installed, has."""
    return list(_import().list_all_envs())


def has_task(task_id: str) -> bool:
    """Whether EnvPool, which must be installed, has the task of a Gymnasium id, or of an id of its own."""
    return _version(task_id)[0] in task_ids()


def make_pool(task_id: str, n_envs: int, *, seed: int, threads: int = 1) -> Any:
    """Make `n_envs` copies of a task, stepped together by `threads` threads.

    Their seeds are `seed`, `seed + 1`, … and cannot be changed. To make another pool takes milliseconds.
    """
    envpool_id, options = _version(task_id)
    pool = _import().make(
        envpool_id,
        env_type="gymnasium",
        num_envs=n_envs,
        num_threads=min(threads, n_envs),
        seed=seed % SEED_LIMIT,
        **options,
    )
    with warnings.catch_warnings():
        # Bounds are written in float64, and rounded when the space is first asked for.
        warnings.filterwarnings("ignore", message=".*precision lowered by casting.*")
        assert pool.observation_space is not None
        assert pool.action_space is not None
    return pool


def observation_format(task_id: str, space: spaces.Space[Any]) -> tuple[spaces.Space[Any], Convert]:
    """Return the policy's observation space and the function that converts EnvPool's observations.

    Grid worlds hold an image of codes, a direction and a text; they give one-hot codes of the image alone, as the
    Gymnasium tasks do. Others are not changed.
    """
    if task_id.startswith(GRID_WORLDS):
        assert isinstance(space, spaces.Dict)
        width, height, _ = space["image"].shape or ()
        return spaces.Box(0, 1, (width, height, sum(CODES)), np.float32), one_hot_images
    return space, _copied


def one_hot_images(observations: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
    """One 1 for each of a cell's three codes, (n, width, height, 21), as `revd.envs.minigrid.OneHotImage` has it."""
    images = observations["image"]
    codes = np.zeros((*images.shape[:-1], sum(CODES)), np.float32)
    cells = np.arange(0, codes.size, sum(CODES)).reshape(*images.shape[:-1], 1)
    codes.reshape(-1)[cells + np.cumsum((0, *CODES[:-1])) + images] = 1
    return codes


def _copied(observations: Any) -> Any:
    """Observations in memory of our own: EnvPool may write the next ones into its own again."""
    if isinstance(observations, dict):
        return {key: part.copy() for key, part in observations.items()}
    return observations.copy()


def _version(task_id: str) -> tuple[str, Mapping[str, int]]:
    """EnvPool's id of a task, and options."""
    return VERSIONS.get(task_id, (task_id, {}))


def _import() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that it imports for other environments
        import envpool
    return envpool
