"""Parameters that the rewards share, as validated frozen dataclasses."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from revd.names import unknown_name
from revd.networks import Initialization

#: Limits of positive parameters, within which float32 rounds them neither to 0 nor to infinity.
SMALLEST, LARGEST = 1e-15, 1e15
#: The largest count, an index that tensors allow, and the largest size of a tensor, which memory can hold.
LARGEST_COUNT, LARGEST_SIZE = 2**31 - 1, 2**16
#: The largest seed: torch's generators accept it, and numbers can be added to it.
LARGEST_SEED = 2**62

Boundary = Literal["rollout", "episode"]
BonusNormalization = Literal["none", "rms", "standard"]
BONUS_NORMALIZATIONS: tuple[str, ...] = get_args(BonusNormalization)


@dataclass(frozen=True, kw_only=True)
class RewardConfig:
    """Parameters of every reward.

    Attributes:
        normalize: "rms" divides the bonus by its running standard deviation. "standard" subtracts its running mean
            first, so that states less novel than usual are paid less than nothing.
        seed: Seed of all random numbers of the method.
    """

    normalize: BonusNormalization = "none"
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            _require_type(field.name, getattr(self, field.name), type(field.default))
        require_choice("normalize", self.normalize, BONUS_NORMALIZATIONS)
        require_integer("seed", self.seed, minimum=0, maximum=LARGEST_SEED)


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig(RewardConfig):
    """Parameters of every reward with an encoder.

    Attributes:
        embedding_size: d, the size of the embedding (of each key's, for Dict observations).
        init: Initial weights of the encoder: "orthogonal" with gain sqrt(2), or "torch", PyTorch's own, which give
            smaller distances.
        normalize_observations: Normalise observations before encoding, with statistics of a warm-up.
        warmup: Observations in the warm-up, during which the bonus is 0.
    """

    embedding_size: int = 128
    init: Initialization = "orthogonal"
    normalize_observations: bool = False
    warmup: int = 1_000

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("init", self.init, get_args(Initialization))
        require_integer("embedding_size", self.embedding_size, minimum=1, maximum=LARGEST_SIZE)
        require_integer("warmup", self.warmup, minimum=1)


@dataclass(frozen=True, kw_only=True)
class NeighborConfig(EmbeddingConfig):
    """Parameters of every reward that searches for neighbours inside a segment.

    Attributes:
        k: Which nearest neighbour's distance is used.
        boundary: Whether a segment is a "rollout", or an "episode", which may span several rollouts.
        memory_size: States of an episode kept between rollouts, per environment; the oldest are dropped first.
        merge_duplicates: Search among the distinct states of each segment, and divide a state's bonus by the square
            root of the number of its exact copies.
    """

    k: int = 3
    boundary: Boundary = "rollout"
    memory_size: int = 10_000
    merge_duplicates: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("k", self.k, minimum=1, maximum=LARGEST_SIZE)
        require_choice("boundary", self.boundary, get_args(Boundary))
        require_integer("memory_size", self.memory_size, minimum=self.k + 1)


Config = TypeVar("Config", bound=RewardConfig)


def build_config(
    config_type: type[Config], method: str, parameters: dict[str, Any], *, besides: Sequence[str] = ()
) -> Config:
    """Make the method's config.

    Raises:
        ValueError: A value is out of range, or a name is unknown; then the message lists the nearest valid ones, also
            among `besides`.
    """
    valid = [field.name for field in fields(config_type)]
    for name in parameters:
        if name not in valid:
            raise ValueError(unknown_name(f"parameter of {method}", name, [*valid, *besides]))
    # NumPy's scalars, as from a sweep over an array, become Python's, so that a config can be written as JSON.
    return config_type(
        **{name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}
    )


def require(condition: bool, name: str, value: object, valid: str) -> None:
    """Raise a ValueError that names the argument, its value and what would be valid."""
    if not condition:
        raise ValueError(f"{name} must be {valid}, got {value!r}")


def require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise a ValueError unless the value is one of the choices."""
    require(isinstance(value, str) and value in choices, name, value, " or ".join(map(repr, choices)))


def require_number(name: str, value: object, valid: str = "a number of at least 0") -> None:
    """Raise a ValueError, with these words for what is valid, unless the value is a finite number of at least 0."""
    require(_is_number(value) and 0 <= value < float("inf"), name, value, valid)  # type: ignore[operator]


def require_fraction(name: str, value: object) -> None:
    """Raise a ValueError unless the value is a number inside [0, 1]."""
    require(_is_number(value) and 0 <= value <= 1, name, value, "inside [0, 1]")  # type: ignore[operator]


def require_positive(name: str, value: float) -> None:
    """Raise a ValueError unless the value is a positive number that float32 can hold."""
    require(SMALLEST <= value <= LARGEST, name, value, f"a number from {SMALLEST:g} to {LARGEST:g}")


def require_integer(name: str, value: object, *, minimum: int, maximum: int = LARGEST_COUNT) -> None:
    """Raise a ValueError unless the value is an integer, not a bool, from `minimum` to `maximum`."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    valid = f"an integer of at least {minimum}"
    if is_integer and value > maximum:  # type: ignore[operator]
        valid = f"an integer of at most {maximum}"
    require(is_integer and minimum <= value <= maximum, name, value, valid)  # type: ignore[operator]


def _require_type(name: str, value: object, kind: type) -> None:
    # Otherwise strings from a command line or YAML ("no", "0,5") would count as true, or fail without the name.
    if kind is bool:
        require(isinstance(value, bool), name, value, "True or False")
    if kind is float:
        require(_is_number(value), name, value, "a number")


def _is_number(value: object) -> bool:
    """Whether it is a real number that a float can hold, NaN and infinity included; booleans are not."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return isinstance(value, float | np.floating) or abs(int(value)) <= sys.float_info.max
