"""PPO's objective for Discrete actions, with its gradient, in one kernel.

torch uses about 85 kernels for it, which spend more time on launching than on computing: a sixth of the time of a
minibatch.
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

#: The most logits, and the most steps, that one program can hold in its registers.
MAX_LOGITS = 2**14
MAX_BATCH = 2**11


class LossGradients(NamedTuple):
    """The gradients of PPO's loss for n steps.

    Attributes:
        logits: (n, n_actions).
        values: (n, 1).
        statistics: `PPOObjective.statistics`, (6,).
    """

    logits: Tensor
    values: Tensor
    statistics: Tensor


def can_evaluate(n: int, n_actions: int) -> bool:
    """Whether a minibatch of n steps fits into one program."""
    logits = triton.next_power_of_2(n) * triton.next_power_of_2(n_actions)
    return bool(n <= MAX_BATCH and logits <= MAX_LOGITS)


def loss_gradients(
    logits: Tensor,
    values: Tensor,
    rows: Tensor,
    buffer: DeviceRolloutBuffer,
    objective: PPOObjective,
    coefficients: Tensor,
) -> LossGradients:
    """Compute the gradients that `objective` and autograd would give for the steps `rows` of the buffer.

    A are the advantages (standardised if the objective normalises them), r = p(a) / p_old(a), H is the entropy, R are
    the returns, and 1[.] is 1 where its condition holds. The gradients of one of n steps by its logits z and value v ::

        dL/dz_j = -1/n A r s (1[j = a] - p_j) + ent_coef / n p_j (log p_j + H)
        dL/dv   = 2/n vf_coef (v' - R) 1[v was not clipped]

    Here s is 1 if the surrogate is A r and 0 if it is clipped; v' is the clipped value.
    """
    with torch.no_grad(), launching_on(logits.device):
        result = LossGradients(
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
            *result,
            n,
            n_actions,
            NORMALIZE=objective.normalize_advantage and n > 1,
            CLIP_VALUES=objective.clip_values,
            ROWS=triton.next_power_of_2(n),
            ACTIONS=triton.next_power_of_2(n_actions),
            num_warps=4 if n * n_actions <= 2048 else 16,
        )
    return result
