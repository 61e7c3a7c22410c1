"""How often the task's reward changes from step to step."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from revd.arrays import Array
from revd.moments import MEMORY


class RewardDensity(nn.Module):
    """The share of steps whose reward differs from that of the step before in their episode, over recent rollouts.

    Running speed is rewarded densely: near 1. A goal is not, nor is a constant reward or cost of every step.

    Args:
        n_envs: Environments.
    """

    last_rewards: Tensor
    running: Tensor
    changing: Tensor
    total: Tensor

    def __init__(self, n_envs: int) -> None:
        super().__init__()
        self.register_buffer("last_rewards", torch.zeros(n_envs, dtype=torch.float64))
        # Whether the last step did not end its episode.
        self.register_buffer("running", torch.zeros(n_envs, dtype=torch.bool))
        for name in ("changing", "total"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))

    @property
    def is_dense(self) -> bool:
        """Whether most steps have another reward than the one before. False until two steps were seen."""
        return bool(2 * self.changing > self.total)

    def observe(self, rewards: Array, dones: Array, valid: Array) -> float:
        """Add a rollout and return the share, which counts recent rollouts more; 0 until two steps were seen.

        Args:
            rewards: The task's own, before any normalisation, (n_steps, n_envs).
            dones: Ends of episodes, (n_steps, n_envs).
            valid: Steps that count, (n_steps, n_envs); the first ones of each column.
        """
        valid = valid.astype(bool)
        # Row t holds the step before that of row t; the last row is that of the next rollout's first step.
        before = np.concatenate([self.last_rewards.cpu().numpy()[None], rewards.astype(np.float64)])
        running = np.concatenate([self.running.cpu().numpy()[None], ~dones.astype(bool)])
        pairs = valid & running[:-1]
        if pairs.any():
            for buffer, value in ((self.changing, (before[1:] != before[:-1])[pairs].mean()), (self.total, 1.0)):
                buffer.mul_(MEMORY).add_(value)
        newest = valid.sum(axis=0), np.arange(valid.shape[1])
        self.last_rewards.copy_(torch.from_numpy(before[newest]))
        self.running.copy_(torch.from_numpy(running[newest]))
        return float(self.changing / self.total.clamp(min=1))

    def end_episodes(self) -> None:
        """End the running episodes, because all environments were reset from outside."""
        self.running.fill_(False)
