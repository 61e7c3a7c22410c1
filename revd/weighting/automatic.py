"""The weight that follows from the data: the bonus's advantages beside the task's, at a fixed strength."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from revd.functional.advantages import sums_to_come
from revd.moments import RecentMoments
from revd.weighting.critic import BonusCritic
from revd.weighting.reward_density import RewardDensity
from revd.weighting.state_embedder import StateEmbedder
from revd.weighting.task_signal import TaskSignal

if TYPE_CHECKING:
    from revd.arrays import Array
    from revd.rewards import IntrinsicReward

#: Discount and lambda of the bonus's advantages.
GAMMA, GAE_LAMBDA = 0.99, 0.95


class WeightedAdvantages(NamedTuple):
    """What the policy learns from, and numbers about it.

    Attributes:
        advantages: extrinsic_weight * A(task) + w * A(bonus), (n_steps, n_envs).
        numbers: For the log.
    """

    advantages: Tensor
    numbers: dict[str, float]


class AutomaticWeight(nn.Module):
    """Adds the bonus to the policy's advantages, and leaves the task's returns as they are.

    ::

        A_t = extrinsic_weight * A_t(task) + w * A_t(bonus)
        w = strength * sigma(A(task)) / sigma(A(bonus))
        A_t(bonus) = sum_j (gamma lambda)^j delta_{t+j},      delta_t = b_t + gamma V(e_{t+1}) - V(e_t)

    b is the bonus, standardised by its mean and deviation over recent rollouts: a bonus that is paid everywhere is no
    reason to act. V is a critic of the bonus alone over the embeddings e of the states. The sum does not stop where an
    episode ends: the state after an episode's last one is the first of the next, so ending an episode costs nothing.
    Both sigma are deviations over recent rollouts, so that on average over them the bonus's part is the fraction
    `strength` of the task's, whatever the scale of either. With extrinsic_weight = 0, w is 1 / sigma(A(bonus)).

    With `yield_to_task`, the strength is 0 where the task's reward is dense (`RewardDensity`); `observe_task` tells.

    All state is in buffers and parameters.

    Args:
        reward: The reward that pays the bonus.
        yield_to_task: Whether the bonus leaves the policy to a task whose reward is dense.
    """

    def __init__(self, reward: IntrinsicReward, *, yield_to_task: bool = True) -> None:
        super().__init__()
        self.yield_to_task = yield_to_task
        self.embedder = StateEmbedder(reward)
        self.critic = BonusCritic(self.embedder.embedding_size(reward), seed=reward.config.seed)
        self.task_signal, self.reward_density = TaskSignal(reward.n_envs), RewardDensity(reward.n_envs)
        self.bonus, self.task_advantages, self.bonus_advantages = (RecentMoments() for _ in range(3))

    @property
    def yields(self) -> bool:
        """Whether the bonus leaves the policy to the task, by what was observed so far."""
        return self.yield_to_task and self.reward_density.is_dense

    def observe_task(self, rewards: Array, dones: Array, valid: Array) -> dict[str, float]:
        """Look at the task's own rewards of a rollout, before `weigh`; numbers for the log.

        Args:
            rewards: Before any normalisation, which would make a constant reward differ from step to step.
                (n_steps, n_envs).
            dones: Ends of episodes, (n_steps, n_envs).
            valid: Steps that count, (n_steps, n_envs).
        """
        speaks = self.task_signal.observe(rewards, dones, valid)
        return {"task_speaks": speaks, "reward_density": self.reward_density.observe(rewards, dones, valid)}

    def end_episodes(self) -> None:
        """End the task's running episodes, because all environments were reset from outside."""
        self.task_signal.end_episodes()
        self.reward_density.end_episodes()

    @torch.no_grad()
    def weigh(
        self,
        bonus: Tensor,
        embeddings: Tensor | None,
        task_advantages: Tensor,
        *,
        strength: Tensor,
        extrinsic_weight: float,
        valid: Tensor | None = None,
        paid: Tensor | None = None,
    ) -> WeightedAdvantages:
        """Weigh one rollout; the critic then learns from it.

        Args:
            bonus: (n_steps, n_envs).
            embeddings: Of all states and of those after the last step, (n_steps + 1, n_envs, d). None pays nothing.
            task_advantages: (n_steps, n_envs).
            strength: (n_steps, 1).
            extrinsic_weight: Factor of the task's advantages. With 0 the bonus's have deviation 1.
            valid: Steps that count, (n_steps, n_envs); all by default.
            paid: Those of them that could be paid; all by default. The others (a first segment, a warm-up) are neither
                better nor worse than usual.
        """
        if valid is not None:
            paid = valid if paid is None else valid & paid
        if self.yields:
            strength = torch.zeros_like(strength)
        self.task_advantages.update(_chosen(task_advantages, valid))
        own = torch.zeros_like(task_advantages)
        explained = own.new_full((), torch.nan)
        if paid is None or bool(paid.any()):
            self.bonus.update(_chosen(bonus, paid))
        if embeddings is not None and bool(self.bonus.total > 0):
            standardized = _zero_elsewhere(self._standardized(bonus), paid)
            # In float32 also under autocast, as the embeddings are.
            with torch.autocast(embeddings.device.type, enabled=False):
                own, explained = self._bonus_advantages(standardized, embeddings, valid)
            self.bonus_advantages.update(_chosen(own, valid))
        task_deviation, bonus_deviation = self.task_advantages.deviation, self.bonus_advantages.deviation
        reference = strength * task_deviation if extrinsic_weight > 0 else torch.ones_like(strength)
        weight = torch.where(bonus_deviation > 0, reference / bonus_deviation, 0.0).to(own.dtype)
        pushed, kept = weight * own, extrinsic_weight * task_advantages
        # Without the task, the strength has no effect.
        numbers = {"strength": strength[-1, 0]} if extrinsic_weight > 0 else {}
        numbers |= {
            "weight": weight[-1, 0],
            "task_deviation": task_deviation,
            "bonus_deviation": bonus_deviation,
            "critic_explained_variance": explained,
            "bonus_share": _share(_chosen(pushed, valid), _chosen(kept, valid)),
        }
        return WeightedAdvantages(kept + pushed, _read(numbers))

    def _standardized(self, bonus: Tensor) -> Tensor:
        """The bonus less its mean, over its deviation; 0 for a constant one."""
        deviation = self.bonus.deviation
        # In float64: the sum over many steps would gather the rounding of a bonus that hardly varies.
        return torch.where(deviation > 0, (bonus.double() - self.bonus.mean) / deviation, 0.0).float()

    def _bonus_advantages(
        self, standardized: Tensor, embeddings: Tensor, valid: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """A(bonus), and how much of the variance of the bonus still to come V has explained."""
        self.critic.observe(_chosen(embeddings[:-1], valid))
        inputs = self.critic.scaled(embeddings)
        values = self.critic(inputs)
        deltas = _zero_elsewhere(standardized + GAMMA * values[1:] - values[:-1], valid)
        advantages = sums_to_come(deltas, torch.full_like(deltas, GAMMA * GAE_LAMBDA))
        predicted = _chosen(values[:-1], valid)
        targets = _chosen(advantages, valid) + predicted
        self.critic.fit(_chosen(inputs[:-1], valid), targets)
        return advantages, 1 - (targets - predicted).var(correction=0) / targets.var(correction=0)


def _chosen(values: Tensor, steps: Tensor | None) -> Tensor:
    """Values (n_steps, n_envs, ...) of the given steps, (n, ...); of all, without a copy, for None."""
    return values.flatten(0, 1) if steps is None else values[steps]


def _zero_elsewhere(values: Tensor, steps: Tensor | None) -> Tensor:
    return values if steps is None else torch.where(steps, values, 0.0)


def _share(pushed: Tensor, kept: Tensor) -> Tensor:
    """The bonus's part of the total absolute advantages, 0 if both are 0."""
    paid = pushed.abs().sum()
    total = paid + kept.abs().sum()
    return torch.where(total > 0, paid / total, 0.0)


def _read(numbers: dict[str, Tensor]) -> dict[str, float]:
    """Read all numbers by one transfer from the device, without those that are undefined."""
    values = torch.stack([number.double() for number in numbers.values()]).tolist()
    return {name: value for name, value in zip(numbers, values, strict=True) if value == value}
