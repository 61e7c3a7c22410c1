"""Vectorised environments in groups, one of which can step while another's actions are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

if TYPE_CHECKING:
    from revd.arrays import Array

#: Rewards, dones and infos.
Outcome: TypeAlias = "tuple[Array, Array, list[dict[str, Any]]]"


class GroupedVecEnv(Protocol):
    """A VecEnv that can also be stepped group by group.

    To send to all groups, to receive from all of them and to ask for the outcome is what its `step` does. Observations,
    which are arrays, come first: a policy can look at them while the rest is put together. Asking it for something else
    (`get_attr`) while a group steps must be harmless, and `reset` forgets what is under way.
    """

    num_envs: int

    @property
    def groups(self) -> Sequence[slice]:
        """The environments of each group, in order; fewer than two groups where it cannot be divided."""

    def send(self, group: int, actions: Array) -> None:
        """Let a group step, without waiting for it."""

    def receive(self, group: int) -> Array:
        """Wait for a group: what its environments show now."""

    def outcome(self, group: int) -> Outcome:
        """What else came of the step that was received last."""


def find_groups(env: VecEnv) -> GroupedVecEnv | None:
    """The environment as one of several groups; None if it is not.

    Wrappers hand on the attributes of what they wrap, past what they do themselves, so the class itself must have them.
    """
    if not all(hasattr(type(env), name) for name in ("send", "receive", "outcome")):
        return None
    grouped = cast(GroupedVecEnv, env)
    return grouped if len(grouped.groups) > 1 else None


def joined(observations: Sequence[Array], outcomes: Sequence[Outcome]) -> VecEnvStepReturn:
    """What all groups gave, as `step_wait` would return it."""
    rewards, dones, infos = zip(*outcomes, strict=True)
    together = [info for part in infos for info in part]
    return np.concatenate(observations), np.concatenate(rewards), np.concatenate(dones), together
