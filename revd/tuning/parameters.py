"""The parameters of a training that can be searched, and how their values are set.

A parameter has a plain name: `weight`, `k`, `learning_rate`. If both the reward and the algorithm have a parameter of
that name, it must be called `reward.NAME` or `algo.NAME`; the other parameters may be called so, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from revd.names import unknown_name
from revd.runs.config import NO_REWARD, TrainConfig
from revd.runs.parameters import Parameters
from revd.tuning.space import DEFAULT_VALUES, ValueSet, parse_values

#: Searchable fields of `TrainConfig`; those of the bonus only if there is a bonus.
_BONUS_FIELDS = ("weight", "strength", "decay", "decay_per", "extrinsic_weight", "normalize_bonus")
_TRAINING_FIELDS = ("n_envs", "normalize", "network", "batch_norm")
#: `normalize` is set by `normalize_bonus`, and a better seed is luck.
_EXCLUDED_REWARD_PARAMETERS = ("seed", "normalize")
#: Parameters that are objects, or only change the logs.
_EXCLUDED_ALGORITHM_PARAMETERS = (
    "policy",
    "policy_kwargs",
    "rollout_buffer_class",
    "rollout_buffer_kwargs",
    "stats_window_size",
)

DEFAULT_SEARCH = ("weight",)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a training that can be searched.

    Attributes:
        name: Its name in the search.
        field: The field of `TrainConfig` that holds it: itself, or the parameters of the reward or the algorithm.
        key: Its name in that field; that of a mixture's member carries the member's name, as in revd.k.
        default: Its value without a search.
    """

    name: str
    field: str
    key: str
    default: Any

    def set_in(self, config: TrainConfig, value: Any) -> TrainConfig:
        """The training with another value of this parameter; a ValueError if the value is invalid."""
        changed = value
        if self.field != self.key:
            changed = getattr(config, self.field).with_value(self.key, value)
        changes: dict[str, Any] = {self.field: changed}
        if self.field == "weight" and value != "auto":
            # A bonus with a number as weight always acts.
            changes["yield_to_task"] = True
        return replace(config, **changes)

    @property
    def usual_values(self) -> str | None:
        """The values that are searched if none are given; None where there are no usual ones."""
        return DEFAULT_VALUES.get(self.key.rpartition(".")[2])


@dataclass(frozen=True, kw_only=True)
class SearchDimension:
    """A searched parameter and its candidate values."""

    parameter: Parameter
    candidates: ValueSet

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return self.parameter.name

    def __str__(self) -> str:
        return f"{self.name}={self.candidates}"


SearchSpace = tuple[SearchDimension, ...]


def make_space(config: TrainConfig, words: Sequence[str] = ()) -> SearchSpace:
    """Parse words such as `weight`, `k=3,5,10` and `alpha=0.1:0.9` into the search space of a training.

    Builds the training with all bounds, so that errors appear before the first trial. A word without values takes the
    `DEFAULT_VALUES` of its parameter. Without words, the weight is searched.
    """
    known = searchable_parameters(config)
    if not words and config.reward == NO_REWARD:
        raise ValueError("reward 'none' has no weight to search; name other parameters, such as --search learning_rate")
    space = tuple(_parse_dimension(word, known) for word in words or DEFAULT_SEARCH)
    for name, count in Counter(dimension.name for dimension in space).items():
        if count > 1:
            raise ValueError(f"search names {name!r} {count} times; name it once")
    names = {dimension.name for dimension in space}
    if {"network", "batch_norm"} <= names:
        raise ValueError("search network or batch_norm, not both: only the paper's network has it")
    if {"weight", "strength"} <= names:
        raise ValueError("search weight or strength, not both: a strength belongs to weight auto")
    for dimension in space:
        _check_values(config, dimension)
    return space


def with_values(config: TrainConfig, space: SearchSpace, values: Mapping[str, Any]) -> TrainConfig:
    """The training of a trial with these values."""
    for dimension in space:
        config = dimension.parameter.set_in(config, values[dimension.name])
    return config


def searchable_parameters(config: TrainConfig) -> dict[str, Parameter]:
    """All parameters that can be searched, by all of their names."""
    from revd.runs.train import prepare, resolve

    # On the CPU, so that no GPU memory is taken from the trainings.
    with closing(prepare(replace(config, device="cpu"))) as training:
        resolved = resolve(config, training)
    fields = _TRAINING_FIELDS if config.reward == NO_REWARD else (*_BONUS_FIELDS, *_TRAINING_FIELDS)
    reward = {
        key: value
        for key, value in Parameters(resolved["reward_params"]).flat().items()
        if key.rpartition(".")[2] not in _EXCLUDED_REWARD_PARAMETERS
    }
    algo = {key: value for key, value in resolved["algo_params"].items() if key not in _EXCLUDED_ALGORITHM_PARAMETERS}
    count = Counter([*fields, *reward, *algo])
    known = {key: Parameter(name=key, field=key, key=key, default=getattr(config, key)) for key in fields}
    for prefix, parameters in (("reward", reward), ("algo", algo)):
        for key, value in parameters.items():
            long = f"{prefix}.{key}"
            name = key if count[key] == 1 else long
            known[long] = known[name] = Parameter(name=name, field=f"{prefix}_params", key=key, default=value)
    return known


def _parse_dimension(word: str, known: Mapping[str, Parameter]) -> SearchDimension:
    name, equals, values = word.partition("=")
    if name not in known:
        qualified = [long for long in (f"reward.{name}", f"algo.{name}") if long in known]
        if qualified:
            raise ValueError(f"both the reward and the algorithm have {name!r}: search {' or '.join(qualified)}")
        names = {parameter.name for parameter in known.values()}
        raise ValueError(unknown_name("parameter to search", name, names, listed=60))
    parameter = known[name]
    text = values if equals else parameter.usual_values
    if text is None:
        ranges = "" if isinstance(parameter.default, bool | str) else f"{name}=LOW:HIGH, {name}=LOW:HIGH:log or "
        raise ValueError(f"search needs values for {name!r}: {ranges}{name}=A,B,C")
    # A weight is a number, though its default is "auto".
    like = 0.0 if parameter.field == "weight" else parameter.default
    try:
        candidates = parse_values(text, like=like)
    except ValueError as error:
        raise ValueError(f"search {word!r}: {error}") from error
    return SearchDimension(parameter=parameter, candidates=candidates)


def _check_values(config: TrainConfig, dimension: SearchDimension) -> None:
    """Build the training with each bound. The config itself checks the fields of the bonus."""
    from revd.runs.train import prepare

    for value in dimension.candidates.values_to_check:
        try:
            changed = dimension.parameter.set_in(config, value)
            if dimension.parameter.field not in _BONUS_FIELDS:
                prepare(replace(changed, device="cpu")).close()
        except (ValueError, MemoryError) as error:
            raise ValueError(f"search {str(dimension)!r}: {error}") from error
