"""Whether the task's own reward still teaches the policy: it is dense, and returns rise as they did."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from revd.arrays import Array
from revd.moments import MEMORY

#: Power of an episode's weight: three quarters of the weight are in the last fifth of the training.
RECENCY = 5
#: Rollouts, and episodes, that are enough to tell whether returns rise.
ENOUGH = 20
#: Rollouts after which episodes are not expected to end.
ENDLESS = 200
#: Returns that rise at less than this part of their average pace have stopped rising.
PART_OF_PACE = 0.25
#: A variance that is a smaller part of the square is rounding.
_ROUNDING = 1e-12
#: By which powers of S the weighted sums of 1, w, u, u^2, y, y^2 and u y shrink when S grows.
_POWERS = np.array([RECENCY, 2 * RECENCY, RECENCY + 1, RECENCY + 2, RECENCY, RECENCY, RECENCY + 1])


class TaskProgress(nn.Module):
    """Whether most rewards differ from the one before, and the returns of episodes rise at a good pace.

    ::

        d > 1/2   and   b > max(a, 0) / 4

    d is the share of steps whose reward differs from that of the step before, over recent rollouts. b is the slope of
    the recent returns: the return y of an episode over the step s at which it ended, with the weight w = (s / S)^5 of S
    steps so far. a is their average pace: from the mean of the first rollout that ended episodes, to the mean of recent
    returns.

    In the first 20 rollouts, and as long as the weights amount to n = (sum w)^2 / sum w^2 < 20 episodes, a dense reward
    counts as one that teaches; but not where 200 rollouts have ended no episode. An episode with a reward that is not
    finite, or one of which a part is missing, is left out.

    Args:
        n_envs: Environments.
    """

    running_returns: Tensor
    changing: Tensor
    total: Tensor
    rollouts: Tensor
    steps: Tensor
    first_step: Tensor
    first_return: Tensor
    sums: Tensor

    def __init__(self, n_envs: int) -> None:
        super().__init__()
        self.register_buffer("running_returns", torch.zeros(n_envs, dtype=torch.float64))
        self.register_buffer("sums", torch.zeros(len(_POWERS), dtype=torch.float64))
        for name in ("changing", "total", "first_step", "first_return"):
            self.register_buffer(name, torch.zeros((), dtype=torch.float64))
        for name in ("rollouts", "steps"):
            self.register_buffer(name, torch.zeros((), dtype=torch.int64))

    @property
    def teaches(self) -> bool:
        """Whether the reward is dense, and returns rise or are too few to tell. False before the first rollout."""
        return bool(2 * self.changing > self.total) and self._returns_rise()

    def observe(self, rewards: Array, dones: Array, valid: Array) -> bool:
        """Add a rollout and return `teaches`.

        Args:
            rewards: The task's own, before any normalisation, (n_steps, n_envs).
            dones: Ends of episodes, (n_steps, n_envs).
            valid: Steps that count, (n_steps, n_envs); the first ones of each column.
        """
        self.rollouts += 1
        valid, rewards = valid.astype(bool), rewards.astype(np.float64)
        pairs = valid[1:] & valid[:-1]
        if pairs.any():
            share = (rewards[1:] != rewards[:-1])[pairs].mean()
            for buffer, value in ((self.changing, share), (self.total, 1.0)):
                buffer.mul_(MEMORY).add_(value)
        self._add_episodes(
            *self._ended_episodes(rewards, dones.astype(bool) & valid, valid), new_steps=int(valid.sum())
        )
        return self.teaches

    def end_episodes(self) -> None:
        """Leave the running episodes out, because all environments were reset from outside, or steps are missing."""
        self.running_returns[self.running_returns != 0] = torch.nan

    def _ended_episodes(self, rewards: Array, ended: Array, valid: Array) -> tuple[Array, Array]:
        """Returns of the episodes that ended, and at which step of this rollout; the running ones are summed on."""
        running = self.running_returns.cpu().numpy()
        is_whole = np.isfinite(running)
        totals = np.where(is_whole, running, 0) + np.where(valid, rewards, 0).cumsum(axis=0)
        envs, rows = np.nonzero(ended.T)
        is_first = np.diff(envs, prepend=-1) != 0
        reached, paid = totals[rows, envs], np.zeros(len(running))
        paid[envs] = reached  # The last of each environment's ends is written last.
        with np.errstate(invalid="ignore"):
            returns, left = reached - np.where(is_first, 0.0, np.roll(reached, 1)), totals[-1] - paid
        self.running_returns.copy_(torch.from_numpy(np.where(is_whole | ended.any(axis=0), left, np.nan)))
        counted = np.isfinite(returns) & (is_whole[envs] | ~is_first)
        return returns[counted], valid.sum(axis=1).cumsum()[rows[counted]]

    def _add_episodes(self, returns: Array, ends: Array, *, new_steps: int) -> None:
        before = int(self.steps)
        after = before + new_steps
        if len(returns) and not float(self.sums[0]):
            self.first_step.fill_(before + ends.mean())
            self.first_return.fill_(returns.mean())
        # u = s / S, and y from the first return on, so that no digits are lost.
        u, y = (before + ends) / max(after, 1), returns - float(self.first_return)
        w = u**RECENCY
        added = np.array([column.sum() for column in (w, w**2, w * u, w * u**2, w * y, w * y**2, w * u * y)])
        shrunk = self.sums.cpu().numpy() * (before / max(after, 1)) ** _POWERS
        self.sums.copy_(torch.from_numpy(shrunk + added))
        self.steps.fill_(after)

    def _returns_rise(self) -> bool:
        """Whether b > max(a, 0) / 4; also as long as it is too early to tell, or all episodes ended at one step."""
        w, ww, u, uu, y, yy, uy = self.sums.tolist()
        if w == 0 and int(self.rollouts) >= ENDLESS:
            return False
        of_steps, of_returns = w * uu - u * u, w * yy - y * y
        too_early = int(self.rollouts) < ENOUGH or w * w < ENOUGH * ww
        if too_early or of_steps <= _ROUNDING * w * uu:
            return True
        if of_returns <= _ROUNDING * w * yy:
            return False
        slope = (w * uy - u * y) / of_steps
        pace = (y / w) / (u / w - float(self.first_step) / int(self.steps))
        return bool(slope > PART_OF_PACE * max(pace, 0))
