"""PyBullet's robots against the package that they come from: `python benchmarks/bullet.py [--seconds 20]`.

Both take the same random actions in the same episodes, step by step in turns; resets are timed apart. `physics` is the
time inside `stepSimulation`, which both spend alike: no environment can be faster than the package by more than the
package's time over that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from statistics import median
from typing import Any

import gymnasium
import numpy as np
from measure import interleaved, machine, markdown_table, parse_options

from revd.envs.make import make_env, register
from revd.envs.silence import SilentFirstReset, silenced
from revd.envs.tasks import TASKS, Task

with silenced():
    import pybullet

PHYSICS_STEPS = 2_000


def main() -> None:
    options = parse_options(__doc__, seconds=20)
    print(f"{machine(options.device)}; medians, µs\n")
    header = ("task", "package", "ours", "ours is faster by", "of it physics", "reset, package", "reset, ours")
    robots = [task for task in TASKS.values() if task.entry_point is not None]
    print(markdown_table(header, [measured(task, options.seconds) for task in robots]))


def measured(task: Task, seconds: float) -> list[str]:
    """A row for a robot."""
    register(task)
    players = {"package": Player(SilentFirstReset(gymnasium.make(task.gymnasium_id))), "ours": Player(make_env(task))}
    steps: dict[str, Callable[[], object]] = {name: player.step for name, player in players.items()}
    resets: dict[str, Callable[[], object]] = {name: player.reset for name, player in players.items()}
    step = interleaved(steps, seconds=seconds, device="cpu", max_repeats=1_000_000)
    reset = interleaved(resets, seconds=seconds / 10, device="cpu", max_repeats=1_000_000)
    package, ours = (1e3 * median(step[name]) for name in players)
    row = [f"{package:.0f}", f"{ours:.0f}", f"{package / ours:.2f}", f"{physics(players['ours']):.0f}"]
    return [task.name, *row, *(f"{1e3 * median(reset[name]):.0f}" for name in players)]


class Player:
    """An environment with random actions, the same for all environments of a task."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        assert env.action_space.shape is not None
        actions = np.random.default_rng(0).uniform(-1, 1, (10_000, *env.action_space.shape))
        self._actions = cycle(actions.astype(np.float32))
        self._env = env
        self._ended = False
        env.reset(seed=0)

    def step(self) -> None:
        """Take one step, after a reset where the episode has ended."""
        if self._ended:
            self._env.reset()
        _, _, terminated, truncated, _ = self._env.step(next(self._actions))
        self._ended = terminated or truncated

    def reset(self) -> None:
        """Begin an episode."""
        self._env.reset()
        self._ended = False


def physics(player: Player) -> float:
    """Median microseconds of `stepSimulation` in an environment of ours."""
    spent: list[float] = []
    with _timed(spent):
        for _ in range(PHYSICS_STEPS):
            player.step()
    return 1e6 * median(spent)


@contextmanager
def _timed(spent: list[float]) -> Iterator[None]:
    simulate = pybullet.stepSimulation

    def timed(client: int) -> None:
        start = time.perf_counter()
        simulate(client)
        spent.append(time.perf_counter() - start)

    pybullet.stepSimulation = timed
    try:
        yield
    finally:
        pybullet.stepSimulation = simulate


if __name__ == "__main__":
    main()
