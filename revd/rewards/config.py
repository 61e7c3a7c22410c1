"""Parameters that the rewards share, as validated frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import numpy as np

from revd.names import unknown_name

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
        require(self.normalize in ("none", "rms"), "normalize", self.normalize, "'none' or 'rms'")
        require_integer("seed", self.seed, minimum=0)


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
        require_integer("embedding_size", self.embedding_size, minimum=1)
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
        require_integer("k", self.k, minimum=1)
        require(self.boundary in ("rollout", "episode"), "boundary", self.boundary, "'rollout' or 'episode'")
        require_integer("memory_size", self.memory_size, minimum=self.k + 1)


Config = TypeVar("Config", bound=RewardConfig)


def build_config(config_type: type[Config], method: str, parameters: dict[str, Any]) -> Config:
    """Make the method's config; a misspelt parameter is answered with the nearest valid ones."""
    valid = [field.name for field in fields(config_type)]
    for name in parameters:
        if name not in valid:
            raise ValueError(unknown_name(f"parameter of {method}", name, valid))
    # NumPy's scalars, as from a sweep over an array, become Python's: a config can be written as JSON.
    return config_type(
        **{name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}
    )


def require(condition: bool, name: str, value: object, valid: str) -> None:
    """Raise a ValueError that names the argument, its value and what would be valid."""
    if not condition:
        raise ValueError(f"{name} must be {valid}, got {value!r}")


def _require_type(name: str, value: object, kind: type) -> None:
    # Words from a command line or a YAML file ("no", "0,5") would otherwise be true, or fail without a name.
    if kind is bool:
        require(isinstance(value, bool), name, value, "True or False")
    if kind is float:
        require(isinstance(value, int | float) and not isinstance(value, bool), name, value, "a number")


def require_number(name: str, value: object) -> None:
    """`require` a finite number of at least 0."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    require(is_number and 0 <= value < float("inf"), name, value, "a number of at least 0")  # type: ignore[operator]


def require_integer(name: str, value: object, *, minimum: int) -> None:
    """`require` an integer of at least `minimum`; booleans are not integers here."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    require(is_integer and value >= minimum, name, value, f"an integer of at least {minimum}")  # type: ignore[operator]
