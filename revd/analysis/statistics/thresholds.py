"""The returns at which a task counts as solved, for tables of the steps that it took."""

from collections.abc import Mapping

#: By task. A MiniGrid return is 1 minus 0.9 times the used share of the time limit; on KeyCorridorS3R3 even the
#: shortest way leaves little more than 0.9.
THRESHOLDS: Mapping[str, float] = {
    "MountainCar-v0": -150.0,
    "classic/mountain-car": -150.0,
    "classic/mountain-car-continuous": 90.0,
    "minigrid/door-key-8x8": 0.9,
    "minigrid/key-corridor-s3r2": 0.9,
    "minigrid/key-corridor-s3r3": 0.7,
    "minigrid/obstructed-maze-1dl": 0.7,
}
