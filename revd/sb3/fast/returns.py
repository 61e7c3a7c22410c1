"""Advantages and returns of a rollout in one kernel: torch needs some fifty for them."""

from __future__ import annotations

import triton
from torch import Tensor

from revd.functional.compiling import current
from revd.sb3.fast import kernels

#: Steps that a program treats at once.
STEPS = 1024


def fill(
    advantages: Tensor,
    returns: Tensor,
    *,
    rewards: Tensor,
    values: Tensor,
    last_values: Tensor,
    dones: Tensor,
    gamma: float,
    gae_lambda: float,
) -> None:
    """Write what `revd.functional.advantages` would find, and returns = advantages + values; all are contiguous."""
    n_steps, n_envs = values.shape
    with current(values.device):
        kernels.advantages[(n_envs,)](
            rewards,
            values,
            last_values,
            dones,
            advantages,
            returns,
            n_steps,
            n_envs,
            float(gamma),
            float(gae_lambda),
            STEPS=min(triton.next_power_of_2(n_steps), STEPS),
        )
