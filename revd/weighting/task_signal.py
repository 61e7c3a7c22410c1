"""Whether the task's rewards have told good from bad lately."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from revd.arrays import Array
from revd.moments import MEMORY


class TaskSignal(nn.Module):
    """The share of recent rollouts in which the task's returns varied.

    They vary if rewards do, or if rewards are a constant other than 0 and episodes differ in length: MountainCar pays
    -1 at every step, which says nothing until an episode ends early.

    Args:
        n_envs: Environments.
    """

    running_lengths: Tensor
    last_length: Tensor
    last_reward: Tensor
    share: Tensor
    total: Tensor

    def __init__(self, n_envs: int) -> None:
        super().__init__()
        self.register_buffer("running_lengths", torch.zeros(n_envs, dtype=torch.int64))
        self.register_buffer("last_length", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last_reward", torch.full((), torch.nan, dtype=torch.float64))
        for name in ("share", "total"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    def observe(self, rewards: Array, dones: Array, valid: Array) -> float:
        """Add a rollout and return the share, which counts recent rollouts more.

        Args:
            rewards: The task's own, (n_steps, n_envs).
            dones: Ends of episodes, (n_steps, n_envs).
            valid: Steps that count, (n_steps, n_envs).
        """
        speaks = self._rewards_vary(rewards[valid]) | (self._lengths_vary(dones, valid) & bool(rewards[valid][0] != 0))
        for buffer, value in ((self.share, float(speaks)), (self.total, 1.0)):
            buffer.mul_(MEMORY).add_(value)
        return float(self.share / self.total)

    def end_episodes(self) -> None:
        """Forget the running episodes, because all environments were reset from outside."""
        self.running_lengths.zero_()

    def _rewards_vary(self, rewards: Array) -> bool:
        before = float(self.last_reward)
        first = rewards[0] if np.isnan(before) else before
        self.last_reward.fill_(float(rewards[-1]))
        return bool((rewards != first).any())

    def _lengths_vary(self, dones: Array, valid: Array) -> bool:
        lengths = self._lengths_of_ended(dones.astype(bool) & valid, valid.sum(axis=0))
        if not lengths:
            return False
        before = int(self.last_length) or lengths[0]
        self.last_length.fill_(lengths[-1])
        return any(length != before for length in lengths)

    def _lengths_of_ended(self, ended: Array, steps: Array) -> list[int]:
        """Lengths of the episodes that ended, environment by environment; the running ones are counted on."""
        # Relative to the rollout's first step.
        begins = [-length for length in self.running_lengths.tolist()]
        lengths = []
        for env, last in np.argwhere(ended.T).tolist():
            lengths.append(last + 1 - begins[env])
            begins[env] = last + 1
        self.running_lengths.copy_(torch.from_numpy(steps - begins))
        return lengths
