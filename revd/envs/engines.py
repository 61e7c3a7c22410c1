"""Which engine steps a task: Gymnasium's Python environments, or EnvPool's in C++."""

from typing import Literal, get_args

from revd.envs import envpool
from revd.envs.tasks import Task, require_installed
from revd.names import unknown_name

Engine = Literal["auto", "gymnasium", "envpool"]
ChosenEngine = Literal["gymnasium", "envpool"]

#: Suites whose tasks EnvPool has, with the same observations and rewards.
EQUAL_SUITES = ("classic", "minigrid")


def choose_engine(task: Task, engine: Engine) -> ChosenEngine:
    """
    The engine of a task. "auto" takes EnvPool where it is installed and has the task as it is.

    Raises:
        ValueError: The engine is unknown, is not installed, or does not have the task.
    """
    if engine not in get_args(Engine):
        raise ValueError(unknown_name("engine", engine, get_args(Engine)))
    if task.suite == "envpool":
        return _of_envpool_alone(task, engine)
    equal = task.suite in EQUAL_SUITES
    if engine == "auto":
        return "envpool" if equal and envpool.is_installed() and envpool.has_task(task.gymnasium_id) else "gymnasium"
    if engine == "gymnasium":
        return engine
    if not equal:
        suites = ", ".join(f"{suite}/…" for suite in EQUAL_SUITES)
        raise ValueError(
            f"engine 'envpool' steps the tasks {suites} and, as envpool/ID, EnvPool's own; not {task.name!r}"
        )
    if not envpool.is_installed():
        raise ValueError("engine 'envpool' needs EnvPool: pip install 'revd[envpool]'")
    return engine


def _of_envpool_alone(task: Task, engine: Engine) -> ChosenEngine:
    if engine == "gymnasium":
        raise ValueError(f"task {task.name!r} is EnvPool's own; leave the engine at auto, or choose 'envpool'")
    require_installed(task)
    if not envpool.has_task(task.gymnasium_id):
        raise ValueError(unknown_name("task of EnvPool", task.gymnasium_id, envpool.task_ids()))
    return "envpool"
