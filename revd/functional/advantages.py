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
    return sums_to_come(rewards + gamma * following * alive - values, gamma * gae_lambda * alive)


def sums_to_come(values: Tensor, factors: Tensor) -> Tensor:
    """Sums of a step's value and all later ones, each discounted by the factors in between.

    ::

        S_t = x_t + f_t * S_{t+1},    S_T = 0

    The recursion is linear, so two neighbouring steps can be composed to one. log2(n_steps) rounds of composing replace
    n_steps steps in sequence, which needs a few dozen launches on a GPU instead of thousands.

    Args:
        values: x, (n_steps, n_envs).
        factors: f, (n_steps, n_envs).

    Returns:
        S, (n_steps, n_envs).
    """
    # After each round, S_t = sums_t + factors_t * S_{t + reach}.
    sums, reach = values, 1
    while reach < len(values):
        sums = torch.cat([sums[:-reach] + factors[:-reach] * sums[reach:], sums[-reach:]])
        factors = torch.cat([factors[:-reach] * factors[reach:], factors[-reach:]])
        reach *= 2
    return sums
