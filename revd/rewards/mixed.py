"""Several rewards as one: the weighted sum of their standardised bonuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import torch
from torch import Tensor, nn

from revd.moments import RecentMoments
from revd.names import named_after, unknown_name
from revd.rewards.base import IntrinsicReward
from revd.rewards.config import RewardConfig, require_number

if TYPE_CHECKING:
    from revd.rollout import Rollout

#: Weights in the order of the members, or by their names.
Weights: TypeAlias = "Sequence[float] | Mapping[str, float]"


@dataclass(frozen=True, kw_only=True)
class MixedConfig(RewardConfig):
    """What a mixture consists of, as it is saved with its state. `seed` is the first member's.

    Attributes:
        members: The parameters of each member by its name.
        weights: The weight of each member by its name.
    """

    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.members) < 2:
            raise ValueError(f"a mixture needs two rewards or more, got {list(self.members)}: name one without a list")
        for name, weight in self.weights.items():
            require_number(f"weights: that of {name!r}", weight)


def mixed_config(members: Mapping[str, RewardConfig], weights: Weights | None, normalize: Any) -> MixedConfig:
    """The config of a mixture of members with these configs.

    Raises:
        ValueError: There are too few members, or the weights do not fit them.
    """
    return MixedConfig(
        normalize=normalize,
        seed=next((config.seed for config in members.values()), 0),
        members={name: asdict(config) for name, config in members.items()},
        weights=_weights_by_name(list(members), weights),
    )


class MixedReward(IntrinsicReward):
    """Pays the weighted sum of what its members pay, each standardised.

    ::

        r^_t = sum_i  w_i * (r^i_t - m_i) / s_i

    m_i and s_i are the mean and deviation of member i's bonuses over recent rollouts, this one included. So a bonus
    that shrinks as it learns keeps its part. What a member cannot pay (REVD's first segment, a warm-up) adds 0, and so
    does a constant bonus. The sum is below 0 where the members pay less than usual. If a member raises an error, the
    members before it have already seen the rollout.

    Metrics and losses carry the member's name: `revd/divergence`, `revd/bonus_mean` (before it is standardised).
    `bonus_mean` is that of the sum.

    Args:
        members: Rewards for the same spaces and environments, named after their classes: `revd`, and `revd_2` for a
            second one. Or rewards by names of your own.
        weights: w_i of each, in their order or by their names; 1 by default.
        normalize: That of the sum.
    """

    config_type: ClassVar[type[RewardConfig]] = MixedConfig
    config: MixedConfig

    def __init__(
        self,
        members: Sequence[IntrinsicReward] | Mapping[str, IntrinsicReward],
        *,
        weights: Weights | None = None,
        normalize: str = "none",
    ) -> None:
        named = members if isinstance(members, Mapping) else named_after(members, _class_names(members))
        _check_members(named)
        config = mixed_config({name: member.config for name, member in named.items()}, weights, normalize)
        first = next(iter(named.values()))
        super().__init__(first.observation_space, first.action_space, first.n_envs, **vars(config))
        self.members = nn.ModuleDict(named)
        self.member_moments = nn.ModuleDict({name: RecentMoments() for name in named})
        self.uses_successors = any(member.uses_successors for member in named.values())

    @property
    def named_members(self) -> dict[str, IntrinsicReward]:
        """The members by name."""
        return {name: cast("IntrinsicReward", member) for name, member in self.members.items()}

    @property
    def embedding_member(self) -> IntrinsicReward | None:
        """The first member that has an encoder: what reads a mixture's embeddings reads this one's."""
        return next((member for member in self.named_members.values() if hasattr(member, "encoder")), None)

    @property
    def encoder(self) -> nn.Module:
        """The encoder of the first member that has one."""
        if self.embedding_member is None:
            raise AttributeError(f"none of {', '.join(self.named_members)} has an encoder")
        return cast("nn.Module", self.embedding_member.encoder)

    @property
    def latest_embeddings(self) -> Tensor | None:
        """Those of the member with this encoder."""
        return None if self.embedding_member is None else self.embedding_member.latest_embeddings

    def bonus(self, rollout: Rollout) -> Tensor:
        """The weighted sum of the members' standardised bonuses."""
        valid = rollout.valid_on(self.device)
        bonus = torch.zeros(valid.shape, device=self.device)
        for name, member in self.named_members.items():
            paid = member.compute(rollout)
            self.record(**{f"{name}/{key}": value for key, value in member.metrics().items()})
            moments = cast("RecentMoments", self.member_moments[name])
            payable = valid if member.latest_paid is None else valid & member.latest_paid
            bonus += self.config.weights[name] * _standardised(paid, payable, moments)
        return bonus

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Train the models of all members; losses carry the member's name."""
        return {
            f"{name}/{key}": loss
            for name, member in self.named_members.items()
            for key, loss in member.update(rollout).items()
        }

    def check_rollout(self, rollout: Rollout) -> None:
        """Raise a ValueError unless the rollout has all that the members read: no memory has changed then."""
        for member in self.named_members.values():
            member.check_rollout(rollout)

    def check_rollout_length(self, n_steps: int) -> None:
        """Raise a ValueError if rollouts are too short for a member."""
        for member in self.named_members.values():
            member.check_rollout_length(n_steps)

    def end_episodes(self) -> None:
        """End the running episodes of all members."""
        for member in self.named_members.values():
            member.end_episodes()

    @property
    def settings(self) -> dict[str, Any]:
        """The weights, and the parameters of each member under its name."""
        config = self.config
        return {"normalize": config.normalize, "weights": config.weights, **config.members}

    def fresh(self, n_envs: int | None = None, **parameters: Any) -> MixedReward:
        """A mixture of fresh members; `members` holds other parameters of each, by name."""
        changes = parameters.pop("members", {})
        members = {name: member.fresh(n_envs, **changes.get(name, {})) for name, member in self.named_members.items()}
        return MixedReward(
            members, **{"weights": self.config.weights, "normalize": self.config.normalize, **parameters}
        )


def _class_names(members: Sequence[IntrinsicReward]) -> list[str]:
    return [type(member).__name__.lower() for member in members]


def _check_members(named: Mapping[str, IntrinsicReward]) -> None:
    for name, member in named.items():
        if not isinstance(member, IntrinsicReward):
            raise TypeError(f"members must be instances of IntrinsicReward, got {member!r} as {name!r}")
        if not name.isidentifier():
            raise ValueError(f"members: a name must be an identifier such as my_reward, got {name!r}")
    instances = list(named.values())
    if len({id(member) for member in instances}) < len(instances):
        raise ValueError("members: the same instance is given twice, and its memory would see each rollout twice")
    for name, member in named.items():
        for attribute in ("observation_space", "action_space", "n_envs"):
            mine, expected = getattr(member, attribute), getattr(instances[0], attribute)
            if mine != expected:
                raise ValueError(
                    f"members must be made for the same spaces and environments: {attribute} of {name!r} is {mine}, "
                    f"that of the first one {expected}"
                )


def _weights_by_name(names: list[str], weights: Weights | None) -> dict[str, float]:
    if weights is None:
        weights = {}
    if isinstance(weights, Mapping):
        for name in weights:
            if name not in names:
                raise ValueError(f"weights: {unknown_name('member', str(name), names)}")
        return {name: weights.get(name, 1.0) for name in names}
    if isinstance(weights, str) or not isinstance(weights, Sequence) or len(weights) != len(names):
        raise ValueError(f"weights must be one number for each of {', '.join(names)}, got {weights!r}")
    return dict(zip(names, weights, strict=True))


def _standardised(bonus: Tensor, paid: Tensor, moments: RecentMoments) -> Tensor:
    """(bonus - mean) / deviation of recent bonuses; 0 where nothing could be paid, and for a constant bonus."""
    if bool(paid.any()):
        moments.update(bonus[paid])
    known = paid & (moments.deviation > 0)
    return torch.where(known, (bonus.double() - moments.mean) / moments.deviation, 0.0).float()
