"""The arguments of `with_intrinsic_reward`, checked before any actor of Ray starts."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from revd.former_defaults import FORMER_DEFAULTS
from revd.rewards import IntrinsicReward, RewardLike, check_parameters, make_reward, recipe
from revd.rewards.config import BONUS_NORMALIZATIONS, require_choice
from revd.weighting.balance_warnings import IN_RLLIB
from revd.weighting.weighting import STRENGTH, Weight, Weighting

if TYPE_CHECKING:
    from revd.rewards import RewardConfig
    from revd.rewards.config import BonusNormalization
    from revd.spaces import Space
    from revd.weighting.schedule import DecayPer


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of `with_intrinsic_reward`, whose docstring describes them.

    RLlib's checkpoints hold pickles of it, so its name and its module must not change. A new field needs a default, for
    the pickles that do not have it.
    """

    reward: RewardLike = "revd"
    weight: Weight = "auto"
    strength: float = STRENGTH
    yield_to_task: bool = True
    decay: float = 1e-5
    decay_per: DecayPer = "rollout"
    extrinsic_weight: float = 1.0
    normalize: BonusNormalization = "none"
    reward_params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.make_weighting()
        require_choice("normalize", self.normalize, BONUS_NORMALIZATIONS)
        own = [entry.name for entry in fields(self) if entry.name not in ("reward", "reward_params")]
        check_parameters(self.reward, self._parameters(), besides=own)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickle. One of an earlier version means what it meant then."""
        # The bonus of earlier versions did not yield.
        state = {"yield_to_task": state["weight"] != "auto", **state}
        # The first versions had no strength. RIDE's default changed later.
        self.__dict__.update(_completed(state) if "strength" not in state or state["reward"] == "ride" else state)

    def __getstate__(self) -> dict[str, Any]:
        """The fields. RIDE's pickles name the parameter whose default has changed, so that they are told from older."""
        used = {name: getattr(self.config, name) for name in _former(self.reward)} if self.reward == "ride" else {}
        return {**vars(self), "reward_params": {**used, **self.reward_params}}

    @property
    def reward_class(self) -> str:
        """The name of the reward's class."""
        if isinstance(self.reward, IntrinsicReward):
            return type(self.reward).__name__
        return recipe(self.reward, self._parameters()).method

    @property
    def config(self) -> RewardConfig:
        """The reward's parameters, without the seed that `make_reward` is given."""
        if not isinstance(self.reward, IntrinsicReward):
            return recipe(self.reward, self._parameters()).config
        own = self.reward.config
        # Checkpoints of earlier versions may hold an instance together with a normalisation.
        return own if self.normalize == "none" else replace(own, normalize=self.normalize)

    def make_reward(
        self, observation_space: Space, action_space: Space, *, n_envs: int, seed: int | None
    ) -> IntrinsicReward:
        """Make the reward for these spaces, with `seed` unless the parameters have one.

        An instance is copied, so that it stays unchanged for learners that start again.
        """
        if isinstance(self.reward, IntrinsicReward):
            reward = deepcopy(make_reward(self.reward, observation_space, action_space, n_envs=n_envs))
            reward.config = self.config
            return reward
        params = self._parameters()
        if seed is not None:
            params.setdefault("seed", seed)
        return make_reward(self.reward, observation_space, action_space, n_envs=n_envs, **params)

    def make_weighting(self) -> Weighting:
        """The weights of bonus and extrinsic reward, with no rollout counted yet.

        Raises:
            ValueError: One of them is out of range.
        """
        return Weighting(
            weight=self.weight,
            strength=self.strength,
            yield_to_task=self.yield_to_task,
            decay=self.decay,
            decay_per=self.decay_per,
            extrinsic_weight=self.extrinsic_weight,
            remedies=IN_RLLIB,
        )

    def _parameters(self) -> dict[str, Any]:
        params = dict(self.reward_params)
        return params if self.normalize == "none" else {**params, "normalize": self.normalize}


def _completed(state: dict[str, Any]) -> dict[str, Any]:
    """The pickle of an earlier version, with the defaults that parameters of rewards had then."""
    reward = state["reward"]
    if not isinstance(reward, IntrinsicReward):
        return {**state, "reward_params": {**_former(reward), **state["reward_params"]}}
    config, former = reward.config, _former(type(reward).__name__.lower())
    reward.config = replace(config, **{name: former[name] for name in former if name not in vars(config)})
    return state


def _former(reward: object) -> Mapping[str, Any]:
    """The former defaults of a reward's parameters, if it is given by the name of one that has some."""
    return FORMER_DEFAULTS.get(reward, {}) if isinstance(reward, str) else {}
