"""The step of SB3's MLP policy during a rollout, without autograd and objects of distributions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from revd.fast.mlp import MlpActorCritic


@contextmanager
def acting_with_mlp(policy: ActorCriticPolicy) -> Iterator[None]:
    """Within the block, `forward` of a policy that `is_standard_mlp` is faster, with the same results."""
    forward, actor_critic = policy.forward, MlpActorCritic(policy)

    def act(obs: Tensor, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        result = None if deterministic or torch.is_grad_enabled() else actor_critic.act(obs)
        return forward(obs, deterministic) if result is None else result

    replaced: Any = policy
    replaced.forward = act
    try:
        yield
    finally:
        del replaced.forward
