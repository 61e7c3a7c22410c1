"""Generalised advantage estimation for a whole rollout at once."""

from __future__ import annotations

import torch
from torch import Tensor


def generalized_advantages(
    rewards: Tensor, values: Tensor, last_values: Tensor, dones: Tensor, *, gamma: float, gae_lambda: float
) -> Tensor:
    """Generalised advantage estimation, GAE(lambda) (Schulman et al., 2016).

    ::

        A_t = delta_t + gamma * lambda * (1 - done_t) * A_{t+1},    A_T = 0
        delta_t = r_t + gamma * (1 - done_t) * V(s_{t+1}) - V(s_t)

    The recursion is linear, so two neighbouring steps can be composed to one. log2(n_steps) rounds of composing replace
    n_steps steps in sequence, which needs a few dozen launches on a GPU instead of thousands.

    Args:
        rewards: (n_steps, n_envs).
        values: V(s_t), (n_steps, n_envs).
        last_values: V(s_T), (n_envs,).
        dones: 1 where the step ended its episode, else 0, (n_steps, n_envs).
        gamma: Discount factor.
        gae_lambda: lambda.

    Returns:
        Advantages, (n_steps, n_envs).
    """
    alive = 1 - dones
    following = torch.cat([values[1:], last_values[None]])
    advantages = rewards + gamma * following * alive - values
    carried = gamma * gae_lambda * alive
    # After each round, A_t = advantages_t + carried_t * A_{t + reach}.
    reach = 1
    while reach < len(rewards):
        advantages = torch.cat([advantages[:-reach] + carried[:-reach] * advantages[reach:], advantages[-reach:]])
        carried = torch.cat([carried[:-reach] * carried[reach:], carried[-reach:]])
        reach *= 2
    return advantages
