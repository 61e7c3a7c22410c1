"""The named tasks, as data. Importing this module loads none of their packages."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from revd.names import unknown_name

Family = Literal["atari", "bullet", "classic", "minigrid", "gymnasium", "envpool"]
#: What steps the environments; see `revd.envs.engines`.
Engine = Literal["auto", "gymnasium", "envpool"]
#: Families whose tasks EnvPool has, with the same observations and rewards.
FAMILIES_IN_ENVPOOL = ("classic", "minigrid")
Extra = Literal["atari", "bullet", "minigrid", "envpool"]

#: Probability with which the paper's sparse setting hides a reward.
SPARSITY = 0.9

#: Import names of the packages that each extra installs.
PACKAGES: Mapping[Extra, tuple[str, ...]] = {
    "atari": ("ale_py",),
    "bullet": ("pybullet", "pybullet_envs_gymnasium"),
    "minigrid": ("minigrid",),
    "envpool": ("envpool",),
}


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task, its origin and its requirements."""

    name: str
    """Its name: `family/task`, or any Gymnasium id."""
    gymnasium_id: str
    """Its Gymnasium id, registered once `module` is imported."""
    family: Family
    """Its family; `gymnasium` for plain Gymnasium ids."""
    description: str
    """One line for lists of tasks."""
    extra: Extra | None = None
    """The extra of revd that installs its packages; None if it needs no extra."""
    module: str | None = None
    """The module whose import registers the id."""
    entry_point: str | None = None
    """A class of revd, as `module:name`, that gives the same numbers as the registered one; None for that one."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Import names of the packages that it needs."""
        return PACKAGES[self.extra] if self.extra is not None else ()


def _atari(name: str, game: str, description: str) -> Task:
    # The id is only used for the ROM's name: the vector environment sets frame skip and sticky actions.
    return Task(
        name=f"atari/{name}",
        gymnasium_id=f"ALE/{game}-v5",
        family="atari",
        description=description,
        extra="atari",
        module="ale_py",
    )


def _bullet(name: str, robot: str, description: str) -> Task:
    return Task(
        name=f"bullet/{name}",
        gymnasium_id=f"{robot}BulletEnv-v0",
        family="bullet",
        description=description,
        extra="bullet",
        module="pybullet_envs_gymnasium.gym_locomotion_envs",
        entry_point=f"revd.envs.bullet_robots:{robot}",
    )


def _minigrid(name: str, level: str, description: str) -> Task:
    return Task(
        name=f"minigrid/{name}",
        gymnasium_id=f"MiniGrid-{level}",
        family="minigrid",
        description=description,
        extra="minigrid",
        module="minigrid",
    )


def _classic(name: str, gymnasium_id: str, description: str) -> Task:
    return Task(name=f"classic/{name}", gymnasium_id=gymnasium_id, family="classic", description=description)


#: All named tasks.
TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        _atari("assault", "Assault", "Shoot a mother ship's drones before the cannon overheats."),
        _atari("battle-zone", "BattleZone", "Drive a tank seen from inside; enemies come from all sides."),
        _atari("demon-attack", "DemonAttack", "Shoot demons that split and dive, wave after wave."),
        _atari("kung-fu-master", "KungFuMaster", "Fight through the floors of a temple; a side-scroller."),
        _atari("montezuma-revenge", "MontezumaRevenge", "Climb past traps to a key and its door, room after room."),
        _atari("riverraid", "Riverraid", "Fly up a river, shoot, and refuel in time."),
        _atari("space-invaders", "SpaceInvaders", "Shoot rows of invaders before they land."),
        _bullet("ant", "Ant", "Four legs learn to run (8 joints)."),
        Task(
            name="bullet/cart-pole",
            gymnasium_id="revd/BulletCartPole-v0",
            family="bullet",
            description="Balance a pole by pushing its cart with a force of up to 10 N, 200 steps.",
            extra="bullet",
            module="revd.envs.cart_pole",
        ),
        _bullet("half-cheetah", "HalfCheetah", "A planar cheetah learns to run; it never falls out of the episode."),
        _bullet("hopper", "Hopper", "A planar leg learns to hop (3 joints)."),
        _bullet("humanoid", "Humanoid", "A humanoid learns to walk (17 joints)."),
        _bullet("walker-2d", "Walker2D", "A planar pair of legs learns to walk (6 joints)."),
        _classic("cart-pole", "CartPole-v1", "Balance a pole by pushing its cart left or right, 500 steps."),
        _classic("mountain-car", "MountainCar-v0", "Rock a weak car up a hill; -1 a step until the flag."),
        _classic(
            "mountain-car-continuous",
            "MountainCarContinuous-v0",
            "The same with a force as the action: 100 at the flag, and every push costs.",
        ),
        _minigrid("door-key-5x5", "DoorKey-5x5-v0", "Find the key, open the door, reach the goal; a small grid."),
        _minigrid("door-key-8x8", "DoorKey-8x8-v0", "Find the key, open the door, reach the goal."),
        _minigrid("door-key-16x16", "DoorKey-16x16-v0", "Find the key, open the door, reach the goal; a large grid."),
        _minigrid(
            "key-corridor-s3r1",
            "KeyCorridorS3R1-v0",
            "Find the key, unlock a room off the corridor, take the ball; 1 row.",
        ),
        _minigrid(
            "key-corridor-s3r2",
            "KeyCorridorS3R2-v0",
            "Find the key, unlock a room off the corridor, take the ball; 2 rows.",
        ),
        _minigrid(
            "key-corridor-s3r3",
            "KeyCorridorS3R3-v0",
            "Find the key, unlock a room off the corridor, take the ball; 3 rows.",
        ),
        _minigrid("multi-room-n2-s4", "MultiRoom-N2-S4-v0", "Open the doors of 2 rooms in a row, reach the goal."),
        _minigrid("multi-room-n4-s5", "MultiRoom-N4-S5-v1", "Open the doors of 4 rooms in a row, reach the goal."),
        _minigrid("multi-room-n6", "MultiRoom-N6-v0", "Open the doors of 6 rooms in a row, reach the goal."),
        _minigrid(
            "obstructed-maze-1dl", "ObstructedMaze-1Dl-v0", "Find the key, unlock a door, take the ball; 2 rooms."
        ),
    )
}


def find_task(name: str) -> Task:
    """The task of this name; `envpool/ID` is a task of EnvPool, and any other string is taken as a Gymnasium id.

    An unknown name that begins with a family (`bullet/…`) is a ValueError with the nearest names.
    """
    if name in TASKS:
        return TASKS[name]
    family, _, rest = name.partition("/")
    if family == "envpool":
        description = "A task of EnvPool; grid worlds as one-hot codes."
        return Task(name=name, gymnasium_id=rest, family="envpool", description=description, extra="envpool")
    families = {task.family for task in TASKS.values()}
    if family in families:
        raise ValueError(unknown_name("task", name, TASKS))
    return Task(name=name, gymnasium_id=name, family="gymnasium", description="A Gymnasium task, unchanged.")


def installed(task: Task) -> bool:
    """Whether the packages that the task needs can be imported."""
    return not _missing(task)


def require_installed(task: Task) -> None:
    """Raise a ValueError that says what to install, unless all packages are installed."""
    missing = _missing(task)
    if missing:
        raise ValueError(f"task {task.name!r} needs {' and '.join(missing)}: {how_to_install(task.extra)}")


def how_to_install(extra: Extra | None) -> str:
    """The command that installs an extra; PyBullet has wheels up to Python 3.11, EnvPool for Linux only."""
    if extra == "bullet" and sys.version_info >= (3, 12):
        return "use Python 3.11, the last that PyBullet is built for"
    if extra == "envpool" and sys.platform != "linux":
        return "use Linux, for which EnvPool is built"
    return f"pip install 'revd[{extra}]'"


def _missing(task: Task) -> list[str]:
    return [package for package in task.packages if find_spec(package) is None]
