"""The reward under test: how the checks make it, run it, and say what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import torch
from torch import Tensor

from revd.rewards import IntrinsicReward
from revd.testing.samples import Sample, sample_rollout

if TYPE_CHECKING:
    from revd.rollout import Rollout
    from revd.spaces import Space

#: factory(observation_space, action_space, n_envs): the class of a reward is one.
Factory: TypeAlias = "Callable[[Space, Space, int], IntrinsicReward]"

#: Lengths of the sampled rollouts, of which the first is taken that the reward accepts.
LENGTHS = (12, 24, 48, 96, 192, 384, 768)


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A reward's factory, the spaces it is checked with, and parameters that show what others do.

    Attributes:
        factory: See `Factory`.
        observation_space: Space of the sampled observations.
        action_space: Space of the sampled actions.
        parameters: See `revd.testing.check_reward`.
    """

    factory: Factory
    observation_space: Space
    action_space: Space
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def n_steps(self) -> int:
        """Steps of a rollout that the reward accepts."""
        reward = self.make()
        for n_steps in LENGTHS[:-1]:
            try:
                reward.check_rollout_length(n_steps)
            except ValueError:
                continue
            return n_steps
        return LENGTHS[-1]

    def make(self, n_envs: int = 2) -> IntrinsicReward:
        """One more reward, as the factory makes it."""
        reward = self.factory(self.observation_space, self.action_space, n_envs)
        if not isinstance(reward, IntrinsicReward):
            fail(f"the factory returned a {type(reward).__name__}", "an IntrinsicReward")
        return reward

    def make_with(self, **parameters: Any) -> IntrinsicReward:
        """The same with other parameters, made by its class: its constructor takes the fields of its config."""
        reward = self.make()
        config = {entry.name: getattr(reward.config, entry.name) for entry in fields(reward.config)}
        return type(reward)(self.observation_space, self.action_space, reward.n_envs, **{**config, **parameters})

    def rollouts(self, count: int = 4, *, seed: int = 0, **sample: Any) -> list[Rollout]:
        """Rollouts for the reward, see `Sample`; equal for equal arguments."""
        settings = Sample(**{"n_steps": self.n_steps, **sample})
        return [
            sample_rollout(self.observation_space, self.action_space, settings, 1_000 * seed + index)
            for index in range(count)
        ]


def outputs(reward: IntrinsicReward, rollouts: Sequence[Rollout]) -> list[Tensor]:
    """The bonuses and losses of a training."""
    found = []
    for rollout in rollouts:
        found.append(reward.compute(rollout))
        found.append(torch.tensor(list(reward.update(rollout).values())))
    return found


def equal(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """Whether two trainings put out the same, bit by bit."""
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def state_of(reward: IntrinsicReward) -> dict[str, Tensor]:
    """A copy of everything the reward says it remembers."""
    return {name: value.detach().clone() for name, value in reward.state_dict().items()}


def differences(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> list[str]:
    """Names of the tensors that two states do not share, or that differ in a bit; NaN equals NaN."""
    return sorted(
        name for name in {*one, *other} if name not in one or name not in other or not same(one[name], other[name])
    )


def same(one: Tensor, other: Tensor) -> bool:
    """`torch.equal`, for which NaN equals NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def expect(holds: bool, seen: str, right: str) -> None:
    """Fail unless a part of the contract holds."""
    if not holds:
        fail(seen, right)


def fail(seen: str, right: str) -> NoReturn:
    """Say what was seen and what would be right; raised rather than asserted, so that `python -O` keeps it."""
    raise AssertionError(f"{seen}; right would be {right}")
