"""What values a parameter may take in a search, as words of the command line and as questions to Optuna."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from revd.runs.parameters import Parameters

if TYPE_CHECKING:
    from optuna.trial import Trial

LOG = "log"
DIGITS = 4
#: Beyond this, floats have no room for the digits of integers.
LARGEST = 1e15

#: Where to search a parameter that is only named. Of the weight, four decades: the right one differs that much between
#: tasks, because neither their rewards nor the bonus have a common scale.
USUAL: Mapping[str, str] = {
    "weight": "0.001:10:log",
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
class Range:
    """All numbers from `low` to `high`; the whole ones only, if both are integers.

    Attributes:
        low: The smallest.
        high: The greatest.
        log: Whether every decade is searched alike.
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"a range must go from a number to a greater one, got {self}")
        if self.log and self.low <= 0:
            raise ValueError(f"a range over decades must lie above 0, got {self}")

    @property
    def ends(self) -> tuple[float, float]:
        """Both ends: if they are valid for a parameter, what lies between them is."""
        return self.low, self.high

    @property
    def points(self) -> float:
        """How many values there are."""
        return self.high - self.low + 1 if isinstance(self.low, int) else math.inf

    def holds(self, value: object) -> bool:
        """Whether a search could come to this value."""
        fits = isinstance(value, int if isinstance(self.low, int) else int | float) and not isinstance(value, bool)
        return fits and self.low <= value <= self.high  # type: ignore[operator]

    def suggest(self, trial: Trial, name: str) -> Any:
        """The value of a trial."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def rounded(self, value: Any) -> Any:
        """A value with as many digits as matter, to be read, copied and compared."""
        return value if isinstance(value, int) else min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)

    def __str__(self) -> str:
        return f"{self.low}:{self.high}" + (f":{LOG}" if self.log else "")


@dataclass(frozen=True)
class Choices:
    """Some values, between which there is no order.

    Attributes:
        values: The values: numbers, truth values, text or None.
    """

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if len(set(map(repr, self.values))) < max(len(self.values), 2):
            raise ValueError(f"choices must be at least two different values, got {self}")
        for value in self.values:
            if isinstance(value, list | dict) or (isinstance(value, float) and not math.isfinite(value)):
                raise ValueError(f"a choice must be a finite number, true, false, null or text, got {value!r}")

    @property
    def ends(self) -> tuple[Any, ...]:
        """All of them: the one says nothing about the other."""
        return self.values

    @property
    def points(self) -> float:
        """How many there are."""
        return len(self.values)

    def holds(self, value: object) -> bool:
        """Whether it is one of them."""
        return value in self.values

    def suggest(self, trial: Trial, name: str) -> Any:
        """The value of a trial."""
        return trial.suggest_categorical(name, self.values)

    def rounded(self, value: Any) -> Any:
        """The value itself."""
        return value

    def __str__(self) -> str:
        return ",".join(written(value) for value in self.values)


Dimension = Range | Choices


def written(value: Any) -> str:
    """A value as one writes it on the command line."""
    return Parameters(value=value).words()[0].partition("=")[2]


def parse_dimension(text: str, *, like: object) -> Dimension:
    """`LOW:HIGH`, `LOW:HIGH:log` or `A,B,C`, for a parameter whose present value is `like`.

    Of a parameter that is a float, `0:1` means all numbers between; of one that is an integer, only whole ones.
    """
    if "," in text:
        return Choices(tuple(_value(part, like) for part in text.split(",")))
    if isinstance(like, bool | str):
        raise ValueError(f"expected A,B,C, since the present value {like!r} is no number, got {text!r}")
    low, colon, rest = text.partition(":")
    high, _, scale = rest.partition(":")
    if not colon or scale not in ("", LOG):
        raise ValueError(f"expected LOW:HIGH, LOW:HIGH:log or A,B,C, got {text!r}")
    ends = _number(low, like), _number(high, like)
    whole = all(isinstance(end, int) for end in ends)
    if isinstance(like, int) and not whole:
        raise ValueError(f"expected integers, as the present value {like} is one, got {text!r}")
    if isinstance(like, float) or not whole:
        ends = float(ends[0]), float(ends[1])
    return Range(*ends, log=scale == LOG)


def _number(text: str, like: object) -> float:
    value = _value(text, like)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ValueError(f"the ends of a range must be numbers, not beyond {LARGEST:g}, got {text!r}")
    return value


def _value(text: str, like: object) -> Any:
    value = Parameters.parse([f"value={text}"])["value"]
    count = type(like) is int and isinstance(value, float) and value.is_integer()
    return int(value) if count else value
