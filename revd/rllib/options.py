"""What `with_intrinsic_reward` was asked for, checked before any actor of Ray starts."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from revd.rewards import REWARDS, IntrinsicReward, check_parameters, make_reward
from revd.rewards.config import build_config, require_choice, require_fraction, require_number

if TYPE_CHECKING:
    from revd.rewards import RewardConfig
    from revd.rewards.config import BonusNormalization
    from revd.spaces import Space

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of `with_intrinsic_reward`, which explains them."""

    reward: str | IntrinsicReward = "revd"
    weight: float = 0.1
    decay: float = 1e-5
    decay_per: Literal["rollout", "step"] = "rollout"
    extrinsic_weight: float = 1.0
    normalize: BonusNormalization = "none"
    reward_params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_number("weight", self.weight)
        require_fraction("decay", self.decay)
        require_choice("decay_per", self.decay_per, ("rollout", "step"))
        require_number("extrinsic_weight", self.extrinsic_weight)
        require_choice("normalize", self.normalize, ("none", "rms"))
        own = [entry.name for entry in fields(self) if entry.name not in ("reward", "reward_params")]
        check_parameters(self.reward, self._parameters(), besides=own)

    @property
    def method(self) -> str:
        """The name of the reward's class."""
        return (type(self.reward) if isinstance(self.reward, IntrinsicReward) else REWARDS[self.reward]).__name__

    @property
    def config(self) -> RewardConfig:
        """The reward's parameters, but for a seed that `make_reward` is given."""
        if not isinstance(self.reward, IntrinsicReward):
            return build_config(REWARDS[self.reward].config_type, self.method, self._parameters())
        own = self.reward.config
        return own if self.normalize == "none" else replace(own, normalize=self.normalize)

    def make_reward(
        self, observation_space: Space, action_space: Space, *, n_envs: int, seed: int | None
    ) -> IntrinsicReward:
        """The reward for these spaces; `seed` is taken where the parameters hold none.

        Of an instance, a copy: it stays as it was given, for learners that start anew.
        """
        if isinstance(self.reward, IntrinsicReward):
            reward = deepcopy(make_reward(self.reward, observation_space, action_space, n_envs=n_envs))
            reward.config = self.config
            return reward
        params = self._parameters()
        if seed is not None:
            params.setdefault("seed", seed)
        return make_reward(self.reward, observation_space, action_space, n_envs=n_envs, **params)

    def weights(self, rollouts: int, steps: Array) -> Array:
        """lambda_l of each time step, (n_steps, 1), in rollout number `rollouts`, after so many `steps`, (n_steps,)."""
        exponents = np.full(len(steps), rollouts) if self.decay_per == "rollout" else steps
        weights: Array = self.weight * (1 - self.decay) ** exponents[:, None].astype(np.float64)
        return weights

    def _parameters(self) -> dict[str, Any]:
        named = self.normalize != "none" and not isinstance(self.reward, IntrinsicReward)
        return {**self.reward_params, "normalize": self.normalize} if named else dict(self.reward_params)
