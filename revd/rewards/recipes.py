"""Rewards that are asked for by name, and checked before their spaces are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from revd.names import PLUS, mixture_members, reward_names, unknown_name
from revd.rewards.base import IntrinsicReward
from revd.rewards.config import RewardConfig, build_config
from revd.rewards.mixed import MixedReward, Weights, mixed_config

if TYPE_CHECKING:
    from revd.rewards.registry import RewardRegistry
    from revd.spaces import Space

#: What `make_reward`, the callback and RLlib accept: a name, names to be mixed, or an instance.
RewardLike: TypeAlias = "str | Sequence[str] | IntrinsicReward"
#: Parameters of a mixture; all others are those of a member, under its name.
_MIXTURE_PARAMETERS = ("weights", "normalize", "seed")


class Recipe(Protocol):
    """A reward's class and parameters."""

    @property
    def method(self) -> str:
        """The name of its class."""

    @property
    def config(self) -> RewardConfig:
        """Its parameters."""

    def make(self, observation_space: Space, action_space: Space, n_envs: int) -> IntrinsicReward:
        """Make the reward."""


@dataclass(frozen=True)
class SingleRecipe:
    """One reward."""

    cls: type[IntrinsicReward]
    config: RewardConfig
    parameters: Mapping[str, Any]

    @property
    def method(self) -> str:
        """The name of its class."""
        return self.cls.__name__

    def make(self, observation_space: Space, action_space: Space, n_envs: int) -> IntrinsicReward:
        """Make the reward."""
        return self.cls(observation_space, action_space, n_envs, **self.parameters)


@dataclass(frozen=True)
class MixedRecipe:
    """Several rewards in one."""

    members: Mapping[str, SingleRecipe]
    weights: Weights | None
    normalize: str
    method = MixedReward.__name__

    @property
    def config(self) -> RewardConfig:
        """The parameters of all members, and their weights."""
        configs = {name: member.config for name, member in self.members.items()}
        return mixed_config(configs, self.weights, self.normalize)

    def make(self, observation_space: Space, action_space: Space, n_envs: int) -> IntrinsicReward:
        """Make the members and mix them."""
        made = {name: member.make(observation_space, action_space, n_envs) for name, member in self.members.items()}
        return MixedReward(made, weights=self.weights, normalize=self.normalize)


def find_recipe(
    registry: RewardRegistry, reward: str | Sequence[str], parameters: Mapping[str, Any], besides: Sequence[str] = ()
) -> Recipe:
    """Look up a name or names and check the parameters.

    Args:
        registry: Where names are looked up.
        reward: A name, `name+name`, or a list of names.
        parameters: A method's parameters. For a mixture: `weights`, `normalize`, a `seed` for all members, and the
            parameters of each member as a dict under its name.
        besides: Other keywords of the caller, which the message about an unknown parameter may suggest.

    Raises:
        ValueError: A name or a parameter is unknown, or a value is out of range.
    """
    words = reward_names(reward)
    if isinstance(reward, str) and len(words) == 1:
        return _single(registry, reward, parameters, besides)
    return _mixture(registry, words, parameters, besides)


def _single(
    registry: RewardRegistry, name: str, parameters: Mapping[str, Any], besides: Sequence[str] = ()
) -> SingleRecipe:
    cls = registry.find(name)
    _check_names(cls, besides)
    return SingleRecipe(
        cls, build_config(cls.config_type, cls.__name__, dict(parameters), besides=besides), dict(parameters)
    )


def _check_names(cls: type[IntrinsicReward], besides: Sequence[str]) -> None:
    """Raise a ValueError if a parameter of the reward could never be given, because the caller takes its name."""
    taken = sorted((_parameter_names(cls.config_type) - _parameter_names(RewardConfig)) & set(besides))
    if taken:
        raise ValueError(
            f"the parameter {taken[0]!r} of {cls.__name__} has the name of another keyword here, which would take its "
            "value: rename it, or pass an instance made by make_reward"
        )


def _parameter_names(config_type: type[RewardConfig]) -> set[str]:
    return {entry.name for entry in fields(config_type)}


def _mixture(
    registry: RewardRegistry, words: Sequence[str], parameters: Mapping[str, Any], besides: Sequence[str]
) -> MixedRecipe:
    named = mixture_members(words)
    classes = {name: registry.find(word) for name, word in named.items()}
    _check_mixture(classes, parameters, besides)
    shared = {"seed": parameters["seed"]} if "seed" in parameters else {}
    members = {}
    for name, word in named.items():
        try:
            members[name] = _single(registry, word, {**shared, **parameters.get(name, {})})
        except ValueError as error:
            raise ValueError(f"member {name!r} of the mixture: {error}") from error
    recipe = MixedRecipe(members, parameters.get("weights"), parameters.get("normalize", "none"))
    _ = recipe.config  # Checks the weights.
    return recipe


def _check_mixture(
    members: Mapping[str, type[IntrinsicReward]], parameters: Mapping[str, Any], besides: Sequence[str]
) -> None:
    for name, value in parameters.items():
        if name in members:
            if not isinstance(value, Mapping):
                raise ValueError(
                    f"{name} must be a dict of that member's parameters, such as {{'k': 5}}, got {value!r}"
                )
        elif name not in _MIXTURE_PARAMETERS:
            mixture = f"parameter of the mixture {PLUS.join(members)}"
            message = unknown_name(mixture, name, [*members, *_MIXTURE_PARAMETERS, *besides])
            owners = [member for member, cls in members.items() if name in _parameter_names(cls.config_type)]
            if owners:
                first = owners[0]
                message += (
                    f"{'' if message.endswith('?') else '.'} Parameters of a member are given under its name: "
                    f"{first}={{{name!r}: …}}, on the command line {first}.{name}=…"
                )
            raise ValueError(message)
