"""PPO's objective for the actions of a Discrete space, with its gradient, in one kernel.

torch needs some 85 kernels for it, which wait for each other longer than they compute: a sixth of a minibatch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from revd.fast import triton_kernels
from revd.fast.buffer import DeviceRolloutBuffer
from revd.fast.losses import PPOObjective
from revd.functional.search.triton_support import launching_on

#: Logits, and steps, that one program can hold in its registers.
LARGEST = 2**14
LARGEST_BATCH = 2**11


class Gradients(NamedTuple):
    """Of the loss by the logits, (n, n_actions), and by the values, (n, 1); and `PPOObjective.statistics`, (6,)."""

    logits: Tensor
    values: Tensor
    statistics: Tensor


def can_evaluate(n: int, n_actions: int) -> bool:
    """Whether a minibatch of n fits into one program."""
    logits = triton.next_power_of_2(n) * triton.next_power_of_2(n_actions)
    return bool(n <= LARGEST_BATCH and logits <= LARGEST)


def gradients(
    logits: Tensor,
    values: Tensor,
    rows: Tensor,
    buffer: DeviceRolloutBuffer,
    objective: PPOObjective,
    coefficients: Tensor,
) -> Gradients:
    """What `objective` and autograd would find for some steps of the buffer.

    With A the advantages, normalised if the objective says so, r = p(a) / p_old(a), H the entropy, R the returns and
    1[.] one where its argument holds, each of n steps adds to the gradient by its logits z and its value v ::

        dL/dz_j = -1/n A r s (1[j = a] - p_j) + ent_coef / n p_j (log p_j + H)
        dL/dv   = 2/n vf_coef (v' - R) 1[v was not clipped]

    where s is 1 if the surrogate is A r and 0 if it is clipped, and v' the clipped value.
    """
    with torch.no_grad(), launching_on(logits.device):
        found = Gradients(
            torch.empty_like(logits, memory_format=torch.contiguous_format),
            torch.empty_like(values, memory_format=torch.contiguous_format),
            torch.empty(len(objective.statistics), device=logits.device),
        )
        n, n_actions = logits.shape
        triton_kernels.discrete_ppo[(1,)](
            logits.contiguous(),
            values.contiguous(),
            rows,
            buffer.stored.actions,
            buffer.stored.log_probs,
            buffer.stored.values,
            buffer.stored.advantages,
            buffer.stored.returns,
            coefficients,
            *found,
            n,
            n_actions,
            NORMALIZE=objective.normalize_advantage and n > 1,
            CLIP_VALUES=objective.clip_values,
            ROWS=triton.next_power_of_2(n),
            ACTIONS=triton.next_power_of_2(n_actions),
            num_warps=4 if n * n_actions <= 2048 else 16,
        )
    return found
