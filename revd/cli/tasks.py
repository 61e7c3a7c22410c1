"""`revd tasks`."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from revd.envs.tasks import TASKS, Task, how_to_install, installed

#: Columns of a terminal that has room for a line about each task.
WIDE = 110


@dataclass(frozen=True, kw_only=True)
class TasksCommand:
    """List the tasks that have a name, with their spaces and whether their packages are installed."""

    def run(self) -> None:
        """Print the table."""
        console = Console()
        console.print(tasks_table(described=console.width >= WIDE))


_CAPTION = (
    "Any other Gymnasium id is accepted as it is. EnvPool (pip install 'revd[envpool]') steps classic/… and\n"
    "minigrid/… faster, with the same observations (--engine), and has tasks of its own: envpool/ID."
)


def tasks_table(*, described: bool) -> Table:
    """Every named task, with a line about each if `described`."""
    table = Table(header_style="bold", caption=Text(_CAPTION), caption_justify="left")
    for name in ("task", "observations", "actions", "installed"):
        table.add_column(name, no_wrap=name != "installed")
    if described:
        table.add_column("what it is")
    for task in TASKS.values():
        # As Text: the brackets of an extra are not markup.
        description = (task.description,) if described else ()
        table.add_row(task.name, *_spaces(task), Text(_installed(task)), *description)
    return table


def _spaces(task: Task) -> tuple[str, str]:
    if not installed(task):
        return "-", "-"
    from revd.training.vec_env import make_vec_env

    env = make_vec_env(task.name)
    spaces = (_brief(env.observation_space), _brief(env.action_space))
    env.close()
    return spaces


def _brief(space: object) -> str:
    """The kind of a space, with its size or shape."""
    kind = type(space).__name__
    size = getattr(space, "n", None)
    return f"{kind}({size})" if kind == "Discrete" else f"{kind}{getattr(space, 'shape', '')}"


def _installed(task: Task) -> str:
    return "yes" if installed(task) else how_to_install(task.extra)
