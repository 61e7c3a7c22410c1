"""Tasks by name. Knows nothing of rewards, nor of the frameworks that train on them."""

from revd.envs.making import make_env
from revd.envs.sparse import SparseReward
from revd.envs.tasks import TASKS, Task, find_task, installed, require_installed

__all__ = ["TASKS", "SparseReward", "Task", "find_task", "installed", "make_env", "require_installed"]
