"""Which parameters of a training can be searched, where they belong, and how their values get there.

A parameter is called by its own name: `weight`, `k`, `learning_rate`. Where the reward and the algorithm both have one
of that name, it is called `reward.NAME` or `algo.NAME`; all others of theirs may be called so too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from revd.names import unknown_name
from revd.runs.config import NO_REWARD, TrainConfig
from revd.tuning.space import USUAL, Dimension, parse_dimension

#: Fields of a training that leave the task as it is. What belongs to the bonus means nothing without one.
_BONUS_FIELDS = ("weight", "decay", "decay_per", "extrinsic_weight", "normalize_bonus")
_OF_THE_TRAINING = ("n_envs", "normalize", "network", "batch_norm")
#: `normalize` is set by `normalize_bonus`; a seed that does better is luck.
_NOT_OF_THE_REWARD = ("seed", "normalize")
#: Objects rather than values, and what only changes the logs.
_NOT_OF_THE_ALGORITHM = (
    "policy",
    "policy_kwargs",
    "rollout_buffer_class",
    "rollout_buffer_kwargs",
    "stats_window_size",
)

DEFAULT_SEARCH = ("weight",)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """Something about a training that a search may change.

    Attributes:
        name: What it is called in the search.
        place: The field of `TrainConfig` that holds it: itself, or the parameters of the reward or the algorithm.
        key: Its name there.
        present: The value that it has without a search.
    """

    name: str
    place: str
    key: str
    present: Any

    def set_in(self, config: TrainConfig, value: Any) -> TrainConfig:
        """The training with another value of it; a ValueError if that cannot be."""
        changes: dict[str, Any] = {self.key: value}
        if self.place != self.key:
            changes = {self.place: {**getattr(config, self.place), **changes}}
        return replace(config, **changes)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A parameter and the values that it may take."""

    parameter: Parameter
    dimension: Dimension

    @property
    def name(self) -> str:
        """What the parameter is called."""
        return self.parameter.name

    def __str__(self) -> str:
        return f"{self.name}={self.dimension}"


Space = tuple[Axis, ...]


def make_space(config: TrainConfig, words: Sequence[str] = ()) -> Space:
    """What words such as `weight`, `k=3,5,10` and `alpha=0.1:0.9` mean for a training, checked to the ends.

    Builds the training once, so that whatever is wrong with it shows before the first trial. A word without values
    takes the usual ones (`USUAL`). Without words, the weight is searched.
    """
    known = searchable(config)
    if not words and config.reward == NO_REWARD:
        raise ValueError("reward 'none' has no weight to search; say what to search, such as --search learning_rate")
    space = tuple(_axis(word, known) for word in words or DEFAULT_SEARCH)
    for name, count in Counter(axis.name for axis in space).items():
        if count > 1:
            raise ValueError(f"search names {name!r} {count} times; once is enough")
    if {"network", "batch_norm"} <= {axis.name for axis in space}:
        raise ValueError("search network or batch_norm, not both: only the paper's network has it")
    for axis in space:
        _check(config, axis)
    return space


def with_values(config: TrainConfig, space: Space, values: Mapping[str, Any]) -> TrainConfig:
    """The training of a trial."""
    for axis in space:
        config = axis.parameter.set_in(config, values[axis.name])
    return config


def searchable(config: TrainConfig) -> dict[str, Parameter]:
    """All that can be searched, by all the names that it may be called."""
    from revd.runs.train import prepare, resolve

    # A look from the CPU: no GPU is to be kept from those who train.
    with closing(prepare(replace(config, device="cpu"))) as training:
        resolved = resolve(config, training)
    fields = _OF_THE_TRAINING if config.reward == NO_REWARD else (*_BONUS_FIELDS, *_OF_THE_TRAINING)
    reward = {key: value for key, value in resolved["reward_params"].items() if key not in _NOT_OF_THE_REWARD}
    algo = {key: value for key, value in resolved["algo_params"].items() if key not in _NOT_OF_THE_ALGORITHM}
    count = Counter([*fields, *reward, *algo])
    known = {key: Parameter(name=key, place=key, key=key, present=getattr(config, key)) for key in fields}
    for prefix, parameters in (("reward", reward), ("algo", algo)):
        for key, value in parameters.items():
            long = f"{prefix}.{key}"
            name = key if count[key] == 1 else long
            known[long] = known[name] = Parameter(name=name, place=f"{prefix}_params", key=key, present=value)
    return known


def _axis(word: str, known: Mapping[str, Parameter]) -> Axis:
    name, equals, values = word.partition("=")
    if name not in known:
        both = [long for long in (f"reward.{name}", f"algo.{name}") if long in known]
        if both:
            raise ValueError(f"both the reward and the algorithm have {name!r}: search {' or '.join(both)}")
        short = {parameter.name for parameter in known.values()}
        raise ValueError(unknown_name("parameter to search", name, short, listed=60))
    parameter = known[name]
    if not equals and parameter.key not in USUAL:
        ranges = "" if isinstance(parameter.present, bool | str) else f"{name}=LOW:HIGH, {name}=LOW:HIGH:log or "
        raise ValueError(f"search needs values for {name!r}: {ranges}{name}=A,B,C")
    try:
        dimension = parse_dimension(values if equals else USUAL[parameter.key], like=parameter.present)
    except ValueError as error:
        raise ValueError(f"search {word!r}: {error}") from error
    return Axis(parameter=parameter, dimension=dimension)


def _check(config: TrainConfig, axis: Axis) -> None:
    """Build the training at each end; a config itself knows which values the fields of the bonus may have."""
    from revd.runs.train import prepare

    for value in axis.dimension.ends:
        try:
            changed = axis.parameter.set_in(config, value)
            if axis.parameter.place not in _BONUS_FIELDS:
                prepare(replace(changed, device="cpu")).close()
        except (ValueError, MemoryError) as error:
            raise ValueError(f"search {str(axis)!r}: {error}") from error
