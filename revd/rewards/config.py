"""Parameters that the rewards share, as validated frozen dataclasses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from revd.names import unknown_name

#: Positive parameters lie between these, so that float32 neither takes them for 0 nor for infinity.
SMALLEST, LARGEST = 1e-15, 1e15
#: Counts are at most this, which tensors can be cut at; sizes of tensors at most that, which memory can hold.
LARGEST_COUNT, LARGEST_SIZE = 2**31 - 1, 2**16
#: What torch's generators take, with room for those that count on from a seed.
LARGEST_SEED = 2**62

Boundary = Literal["rollout", "episode"]
Normalize = Literal["none", "rms"]


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """What every reward has.

    Attributes:
        normalize: "rms" divides the bonus by its running standard deviation.
        seed: Seed of everything the method draws at random.
    """

    normalize: Normalize = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            _require_type(field.name, getattr(self, field.name), type(field.default))
        require_choice("normalize", self.normalize, get_args(Normalize))
        require_integer("seed", self.seed, minimum=0, maximum=LARGEST_SEED)


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(RewardConfig):
    """What every reward with an encoder has.

    Attributes:
        embedding_size: d, the size of the embedding (of each key's, for Dict observations).
        normalize_observations: Normalise observations before encoding, with statistics that a warm-up freezes.
        warmup: Observations in that warm-up; until it is over the bonus is 0.
    """

    embedding_size: int = 128
    normalize_observations: bool = False
    warmup: int = 1_000

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("embedding_size", self.embedding_size, minimum=1, maximum=LARGEST_SIZE)
        require_integer("warmup", self.warmup, minimum=1)


@dataclass(frozen=True, kw_only=True)
class NeighborConfig(EmbeddingConfig):
    """What every reward has that looks for neighbours inside a segment.

    Attributes:
        k: Which nearest neighbour is measured.
        boundary: What a segment is: a "rollout", or a true "episode" that goes on across rollouts.
        memory_size: States of an episode that are kept from rollout to rollout, per environment; the oldest go first.
    """

    k: int = 3
    boundary: Boundary = "rollout"
    memory_size: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("k", self.k, minimum=1, maximum=LARGEST_SIZE)
        require_choice("boundary", self.boundary, get_args(Boundary))
        require_integer("memory_size", self.memory_size, minimum=self.k + 1)


Config = TypeVar("Config", bound=RewardConfig)


def build_config(
    config_type: type[Config], method: str, parameters: dict[str, Any], *, besides: Sequence[str] = ()
) -> Config:
    """Make the method's config; a misspelt parameter is answered with the nearest valid ones, or one of `besides`."""
    valid = [field.name for field in fields(config_type)]
    for name in parameters:
        if name not in valid:
            raise ValueError(unknown_name(f"parameter of {method}", name, [*valid, *besides]))
    # NumPy's scalars, as from a sweep over an array, become Python's: a config can be written as JSON.
    return config_type(
        **{name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}
    )


def require(condition: bool, name: str, value: object, valid: str) -> None:
    """Raise a ValueError that names the argument, its value and what would be valid."""
    if not condition:
        raise ValueError(f"{name} must be {valid}, got {value!r}")


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """`require` one of some words."""
    require(isinstance(value, str) and value in choices, name, value, " or ".join(map(repr, choices)))


def require_number(name: str, value: object) -> None:
    """`require` a finite number of at least 0."""
    require(_is_number(value) and 0 <= value < float("inf"), name, value, "a number of at least 0")  # type: ignore[operator]


def require_fraction(name: str, value: object) -> None:
    """`require` a number inside [0, 1]."""
    require(_is_number(value) and 0 <= value <= 1, name, value, "inside [0, 1]")  # type: ignore[operator]


def require_positive(name: str, value: float) -> None:
    """`require` a positive number that float32 can take."""
    require(SMALLEST <= value <= LARGEST, name, value, f"a number from {SMALLEST:g} to {LARGEST:g}")


def require_integer(name: str, value: object, *, minimum: int, maximum: int = LARGEST_COUNT) -> None:
    """`require` an integer of at least `minimum` and at most `maximum`; booleans are not integers here."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    valid = f"an integer of at least {minimum}"
    if is_integer and value > maximum:  # type: ignore[operator]
        valid = f"an integer of at most {maximum}"
    require(is_integer and minimum <= value <= maximum, name, value, valid)  # type: ignore[operator]


def _require_type(name: str, value: object, kind: type) -> None:
    # Words from a command line or a YAML file ("no", "0,5") would otherwise be true, or fail without a name.
    if kind is bool:
        require(isinstance(value, bool), name, value, "True or False")
    if kind is float:
        require(_is_number(value), name, value, "a number")


def _is_number(value: object) -> bool:
    """Whether it is a real number that a float can hold; NaN and infinity are, booleans are not."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return isinstance(value, float | np.floating) or abs(int(value)) <= sys.float_info.max
