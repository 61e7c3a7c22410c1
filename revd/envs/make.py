"""One Gymnasium environment of a task."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from revd.envs.drop_text import DropText, has_text
from revd.envs.silence import QuietStart, silenced
from revd.envs.tasks import TASKS, Task, find_task, require_installed
from revd.names import unknown_name


def make_env(task: str | Task, *, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """
    An environment of a task, wrapped as its suite needs; its packages are imported now. A ValueError names the task
    whose environment cannot be made.

    Atari games are not made one by one: ale-py steps and preprocesses a whole vector of them natively.
    """
    if isinstance(task, str):
        task = find_task(task)
    if task.suite == "envpool":
        raise ValueError(f"task {task.name!r} is made as a vector only, and cannot be drawn")
    if task.suite == "atari":
        raise ValueError(f"task {task.name!r} is made as a vector only, by revd.training.atari_vec_env.AtariVecEnv")
    register(task)
    # Environments need not know of render modes, so the argument is left out where it is not needed.
    options: dict[str, Any] = {}
    if render_mode is not None:
        _check_render_mode(task, render_mode)
        options["render_mode"] = render_mode
    with _telling(task):
        env = gymnasium.make(_id_or_spec(task), **options)
    if task.suite == "bullet":
        return QuietStart(env)
    if task.suite == "minigrid":
        from revd.envs.minigrid import OneHotImage

        return OneHotImage(env)
    return DropText(env) if has_text(env.observation_space) else env


def register(task: Task) -> None:
    """Let Gymnasium know the task's id; a ValueError where a package is missing or broken, or the id is unknown."""
    require_installed(task)
    if task.module is not None:
        with silenced():
            _import(task.module, task)
    package, separator, name = task.gymnasium_id.rpartition(":")
    if separator:
        # As gymnasium.make does; gymnasium.spec does not.
        _import(package, task)
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:  # unknown, too old, or no id at all
        raise _unknown(task) from error


def _id_or_spec(task: Task) -> str | EnvSpec:
    """What Gymnasium makes the task of: its id, or what is registered under it but with the task's own class."""
    if task.entry_point is None:
        return task.gymnasium_id
    return replace(gymnasium.spec(task.gymnasium_id), entry_point=task.entry_point)


def _import(module: str, task: Task) -> None:
    try:
        import_module(module)
    except (Exception, SystemExit) as error:
        message = f"the package {module!r} of task {task.name!r} cannot be imported: {_in_words(error)}"
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            message += "; install it, or put its directory on PYTHONPATH"
        raise ValueError(message) from error


def _check_render_mode(task: Task, render_mode: str) -> None:
    """Refuse a task that says it cannot be drawn so: Gymnasium would make it, and `render` would fail."""
    with _telling(task):
        creator = gymnasium.spec(task.gymnasium_id.rpartition(":")[2]).entry_point
        metadata = getattr(load_env_creator(creator) if isinstance(creator, str) else creator, "metadata", {})
        modes = metadata.get("render_modes")
    if modes is not None and render_mode not in modes:
        raise ValueError(
            f"task {task.name!r} cannot be drawn: that needs the render mode {render_mode!r}, "
            f"and its environment has {', '.join(map(repr, modes)) or 'none'}"
        )


@contextmanager
def _telling(task: Task) -> Iterator[None]:
    """Name the task whose environment cannot be made."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise ValueError(f"an environment of task {task.name!r} cannot be made: {_in_words(error)}") from error


def _unknown(task: Task) -> ValueError:
    message = unknown_name("task", task.name, [*gymnasium.registry, *TASKS])
    end = "" if message.endswith("?") else "."
    return ValueError(
        f"{message}{end} A task that another package registers is named with it, as in ale_py:ALE/Pong-v5."
    )


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
