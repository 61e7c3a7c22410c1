"""Making single Gymnasium environments of tasks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from revd.coverage.defaults import GRID_WORLDS
from revd.envs.agent_position import AgentPosition
from revd.envs.drop_text import DropText, has_text
from revd.envs.silence import SilentFirstReset, silenced
from revd.envs.tasks import TASKS, Task, find_task, require_installed
from revd.names import unknown_name


def make_env(task: str | Task, *, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """Make an environment of a task, with the wrappers of its family; a ValueError if that fails.

    Atari games can only be made as a vector, because ale-py steps and preprocesses a whole vector natively.
    """
    if isinstance(task, str):
        task = find_task(task)
    if task.family == "atari":
        raise ValueError(f"task {task.name!r} can only be made as a vector, by revd.training.atari_vec_env.AtariVecEnv")
    register(task)
    # Environments need not accept a render mode, so it is only passed if it is set.
    options: dict[str, Any] = {}
    if render_mode is not None:
        _check_render_mode(task, render_mode)
        options["render_mode"] = render_mode
    with _name_task_in_errors(task):
        env = gymnasium.make(_id_or_spec(task), **options)
    if task.family == "bullet":
        return SilentFirstReset(env)
    if task.gymnasium_id.rpartition(":")[2].startswith(GRID_WORLDS):
        env = AgentPosition(env)
    if task.family == "minigrid":
        from revd.envs.minigrid import OneHotImage

        return OneHotImage(env)
    return DropText(env) if has_text(env.observation_space) else env


def register(task: Task) -> None:
    """Register the task's id in Gymnasium, or import the module of MODULE:CLASS.

    A ValueError if a package is missing or broken, or the id is unknown.
    """
    require_installed(task)
    if task.family == "envpool":
        raise ValueError(f"task {task.name!r} can only be made as a vector, and cannot be drawn")
    if task.module is not None:
        with silenced():
            _import(task.module, task)
    package, separator, name = task.gymnasium_id.rpartition(":")
    if separator:
        # gymnasium.make imports the package of an id, but gymnasium.spec does not.
        _import(package, task)
    if _own_class(task) is not None:
        return
    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:  # unknown, outdated or malformed
        raise _unknown_task(task) from error


def _id_or_spec(task: Task) -> str | EnvSpec:
    """The task's Gymnasium id, or a spec: of MODULE:CLASS, or the registered one with the task's own class."""
    if _own_class(task) is not None:
        return EnvSpec(id=task.gymnasium_id, entry_point=task.gymnasium_id)
    if task.entry_point is None:
        return task.gymnasium_id
    return replace(gymnasium.spec(task.gymnasium_id), entry_point=task.entry_point)


def _own_class(task: Task) -> type[gymnasium.Env[Any, Any]] | None:
    """The class of MODULE:CLASS, once the module has been imported; None if the task is an id."""
    module, separator, name = task.gymnasium_id.rpartition(":")
    if not separator or name in gymnasium.registry:
        return None
    found = getattr(sys.modules.get(module), name, None)
    return found if isinstance(found, type) and issubclass(found, gymnasium.Env) else None


def _import(module: str, task: Task) -> None:
    try:
        import_module(module)
    except (Exception, SystemExit) as error:
        message = f"the package {module!r} of task {task.name!r} cannot be imported: {_describe_error(error)}"
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            message += "; install it, or put its directory on PYTHONPATH"
        raise ValueError(message) from error


def _check_render_mode(task: Task, render_mode: str) -> None:
    """Check that the task supports the render mode: Gymnasium would only fail in `render`."""
    with _name_task_in_errors(task):
        creator = _own_class(task) or gymnasium.spec(task.gymnasium_id.rpartition(":")[2]).entry_point
        metadata = getattr(load_env_creator(creator) if isinstance(creator, str) else creator, "metadata", {})
        modes = metadata.get("render_modes")
    if modes is not None and render_mode not in modes:
        raise ValueError(
            f"task {task.name!r} cannot be drawn: that needs the render mode {render_mode!r}, "
            f"and its environment has {', '.join(map(repr, modes)) or 'none'}"
        )


@contextmanager
def _name_task_in_errors(task: Task) -> Iterator[None]:
    """Raise errors of an environment as a ValueError that names the task."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise ValueError(f"an environment of task {task.name!r} cannot be made: {_describe_error(error)}") from error


def _unknown_task(task: Task) -> ValueError:
    message = unknown_name("task", task.name, [*gymnasium.registry, *TASKS])
    end = "" if message.endswith("?") else "."
    hint = (
        "A task that another package registers is written with the package's name, as in ale_py:ALE/Pong-v5, "
        "and a class of yours MODULE:CLASS."
    )
    return ValueError(f"{message}{end} {hint}")


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
