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
    """Write what `revd.functional.advantages` would find, and returns = advantages + values, (n_steps, n_envs).

    What is written is contiguous; the rest, in any layout, is what that function takes.
    """
    assert advantages.is_contiguous()
    assert returns.is_contiguous()
    n_steps, n_envs = values.shape
    with current(values.device):
        kernels.advantages[(n_envs,)](
            *(part.contiguous() for part in (rewards, values, last_values, dones)),
            advantages,
            returns,
            n_steps,
            n_envs,
            float(gamma),
            float(gamma * gae_lambda),
            STEPS=min(triton.next_power_of_2(n_steps), STEPS),
        )
