"""The cells of tasks that have default ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from revd.arrays import Array
from revd.coverage.grid import Axis, Grid, Infos

#: How the ids of grid worlds begin. Their infos hold the agent's position.
GRID_WORLDS = ("MiniGrid-", "BabyAI-")


class _Default(NamedTuple):
    """The grid of a task, and the bounds of the observations that it reads."""

    grid: Grid
    low: tuple[float, ...]
    high: tuple[float, ...]

    def reads(self, space: Any) -> bool:
        """Whether observations of this space are the task's own."""
        return _is_close(getattr(space, "low", None), self.low) and _is_close(getattr(space, "high", None), self.high)


def default_grid(task_id: str, space: Any) -> Grid | None:
    """The grid of a Gymnasium task; None if it has none, or if wrappers have changed its observations.

    Args:
        task_id: Its id.
        space: Its observation space. Wrappers that scale observations change the bounds.
    """
    name = task_id.rpartition(":")[2]
    if name.startswith(GRID_WORLDS):
        return POSITIONS
    found = _CLASSIC.get(name)
    return found.grid if found is not None and found.reads(space) else None


def tasks_with_defaults() -> list[str]:
    """Ids of the tasks with a default grid; `MiniGrid-*` stands for all of that name."""
    return [*_CLASSIC, *(f"{prefix}*" for prefix in GRID_WORLDS)]


def _is_close(bound: Array | None, expected: tuple[float, ...]) -> bool:
    if bound is None or bound.shape != (len(expected),):
        return False
    # Some versions of Gymnasium write float32's largest number for infinity.
    bound = np.where(np.abs(bound) > 1e38, np.copysign(np.inf, bound), bound)
    return np.allclose(bound, expected, rtol=1e-5)


def _symmetric(grid: Grid, *high: float) -> _Default:
    return _Default(grid, tuple(-bound for bound in high), high)


def _angle(name: str, bins: int) -> Axis:
    return Axis(name=name, size=2 * math.pi / bins, low=-math.pi, high=math.pi, unit="rad")


def _pendulum(observations: Array, infos: Infos) -> Array:
    """Angle and angular velocity of (cos, sin, velocity)."""
    cosine, sine, velocity = observations.T
    return np.stack([np.arctan2(sine, cosine), velocity], axis=1)


def _acrobot(observations: Array, infos: Infos) -> Array:
    """Two angles and their velocities of (cos, sin, cos, sin, velocity, velocity)."""
    cosine_1, sine_1, cosine_2, sine_2, *velocities = observations.T
    return np.stack([np.arctan2(sine_1, cosine_1), np.arctan2(sine_2, cosine_2), *velocities], axis=1)


#: MiniGrid counts rows from the top.
POSITIONS = Grid((Axis(name="x", whole=True), Axis(name="y", whole=True, downwards=True)), "agent_pos")

_MOUNTAIN_CAR = Grid(
    (
        Axis(name="position", size=0.05, low=-1.2, high=0.6),
        Axis(name="velocity", size=0.005, low=-0.07, high=0.07, unit="per step"),
    )
)
# The plane of position and angle, of which the episode's end depends; velocities have no ends.
_CART_POLE = Grid(
    (
        Axis(name="position", size=0.4, low=-2.4, high=2.4, unit="m"),
        Axis(name="angle", size=0.035, low=-0.21, high=0.21, unit="rad"),
        Axis(name="velocity", size=0.5, low=-3, high=3, unit="m/s"),
        Axis(name="angular velocity", size=0.5, low=-3, high=3, unit="rad/s"),
    ),
    (0, 2, 1, 3),
)
_PENDULUM = Grid(
    (_angle("angle", 36), Axis(name="angular velocity", size=0.5, low=-8, high=8, unit="rad/s")), _pendulum
)
_ACROBOT = Grid(
    (
        _angle("first angle", 24),
        _angle("second angle", 24),
        Axis(name="first velocity", size=math.pi, low=-4 * math.pi, high=4 * math.pi, unit="rad/s"),
        Axis(name="second velocity", size=2.25 * math.pi, low=-9 * math.pi, high=9 * math.pi, unit="rad/s"),
    ),
    _acrobot,
)

_MOUNTAIN_CARS = _Default(_MOUNTAIN_CAR, (-1.2, -0.07), (0.6, 0.07))
_CART_POLES = _symmetric(_CART_POLE, 4.8, math.inf, math.radians(24), math.inf)
_CLASSIC: Mapping[str, _Default] = {
    "MountainCar-v0": _MOUNTAIN_CARS,
    "MountainCarContinuous-v0": _MOUNTAIN_CARS,
    "CartPole-v0": _CART_POLES,
    "CartPole-v1": _CART_POLES,
    "Pendulum-v1": _symmetric(_PENDULUM, 1, 1, 8),
    "Acrobot-v1": _symmetric(_ACROBOT, 1, 1, 1, 1, 4 * math.pi, 9 * math.pi),
}
