"""The cells of tasks that have default ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from revd.arrays import Array
from revd.coverage.grid import Axis, Grid, Infos

#: How the ids of grid worlds begin. Their infos hold the agent's position.
GRID_WORLDS = ("MiniGrid-", "BabyAI-")


class _Default(NamedTuple):
    """The grid of a task, and the shape of the observations that it reads."""

    grid: Grid
    shape: tuple[int, ...]


def default_grid(task_id: str, observation_shape: tuple[int, ...] | None) -> Grid | None:
    """The grid of a Gymnasium task; None if it has none, or if wrappers have changed its observations."""
    name = task_id.rpartition(":")[2]
    if name.startswith(GRID_WORLDS):
        return POSITIONS
    found = _CLASSIC.get(name)
    return found.grid if found is not None and found.shape == observation_shape else None


def tasks_with_defaults() -> list[str]:
    """Ids of the tasks with a default grid; `MiniGrid-*` stands for all of that name."""
    return [*_CLASSIC, *(f"{prefix}*" for prefix in GRID_WORLDS)]


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

_CLASSIC: Mapping[str, _Default] = {
    "MountainCar-v0": _Default(_MOUNTAIN_CAR, (2,)),
    "MountainCarContinuous-v0": _Default(_MOUNTAIN_CAR, (2,)),
    "CartPole-v0": _Default(_CART_POLE, (4,)),
    "CartPole-v1": _Default(_CART_POLE, (4,)),
    "Pendulum-v1": _Default(_PENDULUM, (3,)),
    "Acrobot-v1": _Default(_ACROBOT, (6,)),
}
