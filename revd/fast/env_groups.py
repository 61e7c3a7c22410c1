"""Vectorised environments in groups: one group steps while the actions of another are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

if TYPE_CHECKING:
    from revd.arrays import Array

#: Rewards, dones and infos of a step.
StepResults: TypeAlias = "tuple[Array, Array, list[dict[str, Any]]]"


class GroupedVecEnv(Protocol):
    """A VecEnv that can also be stepped group by group.

    `step` is the same as `send`, `receive` and `step_results` for every group. Observations must be arrays. They come
    before the results, so that the policy can start on them while the results are assembled. Other calls (`get_attr`)
    must be harmless while a group steps, and `reset` discards steps that were not received.
    """

    num_envs: int

    @property
    def groups(self) -> Sequence[slice]:
        """The environments of each group, in order; fewer than two groups if they cannot be divided."""

    def send(self, group: int, actions: Array) -> None:
        """Start a step of a group without waiting for it."""

    def receive(self, group: int) -> Array:
        """Wait for a group's step and return its observations."""

    def step_results(self, group: int) -> StepResults:
        """Return rewards, dones and infos of the step received last."""


def as_grouped(env: VecEnv) -> GroupedVecEnv | None:
    """Return the environment if it has two groups or more, else None.

    Its class itself must have the methods: wrappers forward unknown attributes to the environment that they wrap, and
    a step by group would then bypass the wrapper.
    """
    if not all(hasattr(type(env), name) for name in ("send", "receive", "step_results")):
        return None
    grouped = cast(GroupedVecEnv, env)
    return grouped if len(grouped.groups) > 1 else None


def concatenate_groups(observations: Sequence[Array], results: Sequence[StepResults]) -> VecEnvStepReturn:
    """Join the observations and results of all groups into the return value of `step_wait`."""
    rewards, dones, infos = zip(*results, strict=True)
    all_infos = [info for group_infos in infos for info in group_infos]
    return np.concatenate(observations), np.concatenate(rewards), np.concatenate(dones), all_infos
