"""Which engine steps a task: Gymnasium's Python environments, or EnvPool's in C++."""

from typing import Literal, get_args

from revd.envs import envpool
from revd.envs.tasks import FAMILIES_IN_ENVPOOL, Engine, Task, how_to_install, require_installed
from revd.names import unknown_name

ChosenEngine = Literal["gymnasium", "envpool"]


def choose_engine(task: Task, engine: Engine) -> ChosenEngine:
    """Choose the engine of a task. "auto" is EnvPool if it is installed and has the same task.

    Raises:
        ValueError: The engine is unknown, is not installed, or does not have the task.
    """
    if engine not in get_args(Engine):
        raise ValueError(unknown_name("engine", engine, get_args(Engine)))
    if task.family == "envpool":
        return _choose_for_envpool_task(task, engine)
    equal = task.family in FAMILIES_IN_ENVPOOL
    if engine == "auto":
        return "envpool" if equal and envpool.is_installed() and envpool.has_task(task.gymnasium_id) else "gymnasium"
    if engine == "gymnasium":
        return engine
    if not equal:
        families = ", ".join(f"{family}/…" for family in FAMILIES_IN_ENVPOOL)
        raise ValueError(
            f"engine 'envpool' steps the tasks {families} and, as envpool/ID, EnvPool's own; not {task.name!r}"
        )
    if not envpool.is_installed():
        raise ValueError(f"engine 'envpool' needs EnvPool: {how_to_install('envpool')}")
    _require_task(task)
    return engine


def _choose_for_envpool_task(task: Task, engine: Engine) -> ChosenEngine:
    if engine == "gymnasium":
        raise ValueError(f"task {task.name!r} is EnvPool's own; leave the engine at auto, or choose 'envpool'")
    require_installed(task)
    _require_task(task)
    return "envpool"


def _require_task(task: Task) -> None:
    if not envpool.has_task(task.gymnasium_id):
        raise ValueError(unknown_name("task of EnvPool", task.gymnasium_id, envpool.task_ids()))
