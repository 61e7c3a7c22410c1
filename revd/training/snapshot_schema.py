"""The JSON of a snapshot: its checksum says that it is what was written, not who wrote it."""

import math
from collections.abc import Mapping
from typing import Any

_TOO_MANY = 2**63


def check_values(values: Mapping[str, Any]) -> None:
    """Raise a ValueError, KeyError, TypeError or AttributeError unless everything is there and of its type."""
    counters, bonus = values["counters"], values.get("bonus", {})
    for name, count in {
        "sessions": values["sessions"],
        "num_timesteps": counters["num_timesteps"],
        "n_updates": counters["n_updates"],
        "rollouts of the bonus": bonus.get("rollouts", 0),
        "steps of the bonus": bonus.get("steps", 0),
    }.items():
        if type(count) is not int or not 0 <= count < _TOO_MANY:
            raise ValueError(f"the checkpoint's {name} must be an integer of at least 0, got {count!r}")
    _check_numbers("pending", values["pending"])
    for options in values["optimizer"]:
        _check_numbers("optimizer", options)
    for episode in counters["episodes"]:
        _check_numbers("episodes", {name: episode[name] for name in ("r", "l", "t")})
    _check_numbers("successes", dict(enumerate(counters["successes"])))


def _check_numbers(what: str, numbers: Mapping[Any, Any]) -> None:
    for name, number in numbers.items():
        real = isinstance(number, int | float) and abs(number) < math.inf
        if not real or (isinstance(number, int) and abs(number) >= _TOO_MANY):
            raise ValueError(f"the checkpoint's {what} must be finite numbers, got {number!r} under {name!r}")
