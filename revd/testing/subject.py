"""The reward under test: making it, running it, and reporting what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import torch
from torch import Tensor

from revd.rewards import IntrinsicReward
from revd.testing.samples import SampleSettings, sample_rollout

if TYPE_CHECKING:
    from revd.rollout import Rollout
    from revd.spaces import Space

#: factory(observation_space, action_space, n_envs), such as the class of a reward.
Factory: TypeAlias = "Callable[[Space, Space, int], IntrinsicReward]"

#: Lengths of the sampled rollouts; the first that the reward accepts is used.
LENGTHS = (12, 24, 48, 96, 192, 384, 768)


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A reward's factory, its spaces, and values that show the effect of its parameters.

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
        """The number of steps of rollouts that the reward accepts."""
        reward = self.make()
        for n_steps in LENGTHS[:-1]:
            try:
                reward.check_rollout_length(n_steps)
            except ValueError:
                continue
            return n_steps
        return LENGTHS[-1]

    def make(self, n_envs: int = 2) -> IntrinsicReward:
        """Make a reward by the factory."""
        reward = self.factory(self.observation_space, self.action_space, n_envs)
        if not isinstance(reward, IntrinsicReward):
            fail(f"the factory returned a {type(reward).__name__}", "an IntrinsicReward")
        return reward

    def make_with(self, **parameters: Any) -> IntrinsicReward:
        """Make a reward with other parameters by its class, which takes the fields of its config."""
        return self.make().fresh(**parameters)

    def rollouts(self, count: int = 4, *, seed: int = 0, **sample: Any) -> list[Rollout]:
        """Sample rollouts for the reward, see `SampleSettings`; equal arguments give equal rollouts."""
        settings = SampleSettings(**{"n_steps": self.n_steps, **sample})
        return [
            sample_rollout(self.observation_space, self.action_space, settings, 1_000 * seed + index)
            for index in range(count)
        ]


def outputs(reward: IntrinsicReward, rollouts: Sequence[Rollout]) -> list[Tensor]:
    """The bonuses and losses of a training on the rollouts."""
    found = []
    for rollout in rollouts:
        found.append(reward.compute(rollout))
        found.append(torch.tensor(list(reward.update(rollout).values())))
    return found


def equal(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """Whether the bonuses and losses of two trainings are equal in every bit."""
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def state_of(reward: IntrinsicReward) -> dict[str, Tensor]:
    """A copy of the reward's state."""
    return {name: value.detach().clone() for name, value in reward.state_dict().items()}


def differences(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> list[str]:
    """Names of the tensors that only one state has, or that differ in any bit; NaN equals NaN."""
    return sorted(
        name for name in {*one, *other} if name not in one or name not in other or not same(one[name], other[name])
    )


def same(one: Tensor, other: Tensor) -> bool:
    """`torch.equal`, for which NaN equals NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | ((one != one) & (other != other))).all())


def expect(holds: bool, seen: str, expected: str) -> None:
    """Fail unless a part of the contract holds."""
    if not holds:
        fail(seen, expected)


def fail(seen: str, expected: str) -> NoReturn:
    """Raise an AssertionError, also under `python -O`, that compares the result with the contract."""
    raise AssertionError(f"{seen}; expected {expected}")
