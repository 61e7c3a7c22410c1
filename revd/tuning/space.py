"""Candidate values of a searched parameter: parsing, sampling with Optuna, and formatting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from revd.runs.parameters import Parameters

if TYPE_CHECKING:
    from optuna.trial import Trial

LOG = "log"
#: Significant digits of sampled values.
DIGITS = 4
#: Up to this number, floats represent integers exactly.
MAX_NUMBER = 1e15

#: Values of a parameter that is named without any. The weight has four decades, because the best one depends on the
#: scales of the task's rewards and of the bonus, which differ that much between tasks. A strength has no scale.
DEFAULT_VALUES: Mapping[str, str] = {
    "weight": "0.001:10:log",
    "strength": "0.01:1:log",
    "decay": "1e-6:0.01:log",
    "extrinsic_weight": "0.1:10:log",
    "normalize_bonus": "none,rms",
    "k": "1:15:log",
    "alpha": "0.1:0.9",
    "embedding_size": "32,64,128,256",
    "boundary": "rollout,episode",
    "learning_rate": "1e-5:0.003:log",
    "n_steps": "64,128,256,512",
    "batch_size": "32,64,128,256",
    "n_epochs": "3,5,10,20",
    "ent_coef": "0.0001:0.1:log",
    "gamma": "0.95,0.98,0.99,0.995,0.999",
    "gae_lambda": "0.8:0.99",
    "clip_range": "0.1,0.2,0.3",
    "vf_coef": "0.25:1.0",
    "max_grad_norm": "0.3:2.0:log",
}


@dataclass(frozen=True)
class NumberRange:
    """All numbers from `low` to `high`; only the integers among them if both are integers.

    Attributes:
        low: The smallest number.
        high: The greatest number.
        log: Whether numbers are sampled on a logarithmic scale.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"a range must go from a number to a greater one, got {self}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic range must lie above 0, got {self}")

    @property
    def values_to_check(self) -> tuple[float, float]:
        """Both ends: if they are valid for a parameter, so are the numbers between them."""
        return self.low, self.high

    @property
    def points(self) -> float:
        """Number of values."""
        return self.high - self.low + 1 if isinstance(self.low, int) else math.inf

    def contains(self, value: object) -> bool:
        """Whether this value can be sampled."""
        fits = isinstance(value, int if isinstance(self.low, int) else int | float) and not isinstance(value, bool)
        return fits and self.low <= value <= self.high  # type: ignore[operator]

    def suggest(self, trial: Trial, name: str) -> Any:
        """Sample the value of a trial."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def rounded(self, value: Any) -> Any:
        """Round a value to `DIGITS` significant digits, within the range."""
        return value if isinstance(value, int) else min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)

    def __str__(self) -> str:
        return f"{self.low}:{self.high}" + (f":{LOG}" if self.log else "")


@dataclass(frozen=True)
class ValueList:
    """A list of values without an order.

    Attributes:
        values: Numbers, booleans, text or None.
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if len(set(map(repr, self.values))) < max(len(self.values), 2):
            raise ValueError(f"a list must have at least two different values, got {self}")
        for value in self.values:
            if isinstance(value, list | dict) or (isinstance(value, float) and not math.isfinite(value)):
                raise ValueError(f"a value must be a finite number, true, false, null or text, got {value!r}")

    @property
    def values_to_check(self) -> tuple[Any, ...]:
        """All values, because each must be checked."""
        return self.values

    @property
    def points(self) -> float:
        """Number of values."""
        return len(self.values)

    def contains(self, value: object) -> bool:
        """Whether this value is in the list."""
        return value in self.values

    def suggest(self, trial: Trial, name: str) -> Any:
        """Sample the value of a trial."""
        return trial.suggest_categorical(name, self.values)

    def rounded(self, value: Any) -> Any:
        """The value itself."""
        return value

    def __str__(self) -> str:
        return ",".join(format_value(value) for value in self.values)


ValueSet = NumberRange | ValueList


def format_value(value: Any) -> str:
    """Format a value for the command line."""
    return Parameters(value=value).words()[0].partition("=")[2]


def parse_values(text: str, *, like: object) -> ValueSet:
    """Parse `LOW:HIGH`, `LOW:HIGH:log` or `A,B,C`, for a parameter whose default is `like`.

    For a float parameter, `0:1` means all numbers in between; for an integer parameter, only integers.
    """
    if "," in text:
        return ValueList(tuple(_value(part, like) for part in text.split(",")))
    if isinstance(like, bool | str):
        raise ValueError(f"expected A,B,C, because the default {like!r} is not a number, got {text!r}")
    low, colon, rest = text.partition(":")
    high, _, scale = rest.partition(":")
    if not colon or scale not in ("", LOG):
        raise ValueError(f"expected LOW:HIGH, LOW:HIGH:log or A,B,C, got {text!r}")
    bounds = _number(low, like), _number(high, like)
    whole = all(isinstance(bound, int) for bound in bounds)
    if isinstance(like, int) and not whole:
        raise ValueError(f"expected integers, because the default {like} is one, got {text!r}")
    if isinstance(like, float) or not whole:
        bounds = float(bounds[0]), float(bounds[1])
    return NumberRange(*bounds, log=scale == LOG)


def _number(text: str, like: object) -> float:
    value = _value(text, like)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_NUMBER:
        raise ValueError(f"the bounds of a range must be numbers, not beyond {MAX_NUMBER:g}, got {text!r}")
    return value


def _value(text: str, like: object) -> Any:
    value = Parameters.parse([f"value={text}"])["value"]
    is_count = type(like) is int and isinstance(value, float) and value.is_integer()
    return int(value) if is_count else value
