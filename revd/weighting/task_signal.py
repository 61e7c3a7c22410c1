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
        lengths: list[int] = []
        running = self.running_lengths.tolist()
        for env, steps in enumerate(valid.sum(axis=0).tolist()):
            ends = np.flatnonzero(dones[:steps, env]) + 1
            lengths += np.diff(ends, prepend=-running[env]).tolist()
            running[env] = steps - int(ends[-1]) if len(ends) else running[env] + steps
        self.running_lengths.copy_(torch.tensor(running))
        if not lengths:
            return False
        before = int(self.last_length) or lengths[0]
        self.last_length.fill_(lengths[-1])
        return any(length != before for length in lengths)
