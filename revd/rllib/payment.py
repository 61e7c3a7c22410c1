"""The two ways in which a bonus enters a batch of RLlib: the rewards before GAE, or the advantages after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.utils.postprocessing.zero_padding import unpad_data_if_necessary
from torch import Tensor

from revd.rllib.episodes import current_observations, part_name, places, replace_rewards

if TYPE_CHECKING:
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    from revd.arrays import Array
    from revd.rewards import IntrinsicReward
    from revd.rllib.episodes import EpisodeColumns
    from revd.rollout import Rollout
    from revd.weighting.automatic import AutomaticWeight
    from revd.weighting.balance_warnings import RolloutSize
    from revd.weighting.weighting import Weighting


@dataclass(frozen=True, kw_only=True, eq=False)
class PaidBatch:
    """A batch by environment, and its bonus.

    Attributes:
        rollout: The steps, (n_steps, n_envs).
        extrinsic: The task's rewards, (n_steps, n_envs).
        bonus: Unweighted, (n_steps, n_envs).
        weights: lambda_l, (n_steps, 1); with an automatic weight, its strength.
        size: Steps of the batch, of all learners.
    """

    rollout: Rollout
    extrinsic: Array
    bonus: Tensor
    weights: Array
    size: RolloutSize


def add_to_rewards(
    episodes: list[Any], columns: EpisodeColumns, paid: PaidBatch, weighting: Weighting
) -> dict[str, float]:
    """Add a bonus with a fixed weight to the rewards, from which RLlib then computes returns and advantages.

    ::

        r_t = extrinsic_weight * r_t(extrinsic) + lambda_l * r^_t

    Args:
        episodes: The batch; its episodes are replaced by copies with other rewards.
        columns: The same episodes by environment.
        paid: The bonus.
        weighting: Extrinsic weight and warnings.

    Returns:
        Numbers for the log.
    """
    bonus = paid.bonus.cpu().numpy()
    total = _total(paid.extrinsic, paid.weights * bonus, weighting.extrinsic_weight)
    episodes[:] = replace_rewards(columns, total)
    valid = paid.rollout.valid.numpy()
    weights, task = np.broadcast_to(paid.weights, bonus.shape)[valid], paid.extrinsic[valid]
    balance = weighting.check_balance(bonus[valid], weights, task, task=task, size=paid.size)
    return {"weight": float(paid.weights[-1, 0]), "bonus_share": balance.share}


def _total(extrinsic: Array, bonus: Array, extrinsic_weight: float) -> Array:
    # A number too large for float32 becomes infinite here, and the error below names it.
    with np.errstate(over="ignore", invalid="ignore"):
        total: Array = (extrinsic_weight * extrinsic + bonus).astype(np.float32)
    bad = np.argwhere(~np.isfinite(total))
    if len(bad):
        step, env = bad[0]
        raise ValueError(
            f"the reward at step {step} of environment {env} is {total[step, env]}: the task's own is "
            f"{extrinsic[step, env]:g}, the weighted bonus {bonus[step, env]:g}"
        )
    return total


@dataclass(frozen=True, kw_only=True, eq=False)
class UnweighedBonus:
    """A batch's bonus on its way from before GAE to after it.

    Attributes:
        paid: The bonus.
        embeddings: See `AutomaticWeight.weigh`.
        payable: See `AutomaticWeight.weigh`.
        places: Column, first row and length of every part of an episode.
    """

    paid: PaidBatch
    embeddings: Tensor | None
    payable: Tensor | None
    places: Mapping[tuple[str, int], tuple[int, int, int]]

    @classmethod
    def of(
        cls, paid: PaidBatch, columns: EpisodeColumns, reward: IntrinsicReward, automatic: AutomaticWeight
    ) -> UnweighedBonus:
        """Keep what is needed after GAE; before the reward trains its encoder, and before RLlib appends steps."""
        _total(paid.extrinsic, np.zeros_like(paid.extrinsic), 1.0)
        embeddings = automatic.embedder.embed(reward, paid.rollout, current_observations(columns))
        return cls(paid=paid, embeddings=embeddings, payable=reward.latest_paid, places=places(columns))


def add_to_advantages(
    batch: dict[str, Any], episodes: Sequence[SingleAgentEpisode], waiting: UnweighedBonus, weighting: Weighting
) -> dict[str, float]:
    """Add a bonus with an automatic weight to the advantages, which RLlib has standardised.

    ::

        A_t = extrinsic_weight * A_t(task) + w * (A_t(bonus) - mean A(bonus))

    The mean is that of the batch, since RLlib's advantages are centred too.

    Args:
        batch: The batch of the only module; its advantages are replaced.
        episodes: In the batch's order, with or without the time step that RLlib appends.
        waiting: The bonus.
        weighting: The automatic weight.

    Returns:
        Numbers for the log.
    """
    automatic, paid, advantages = weighting.automatic, waiting.paid, batch[Columns.ADVANTAGES]
    assert automatic is not None
    rows = torch.from_numpy(_rows(episodes, advantages.shape, waiting))
    valid = (rows >= 0).to(paid.bonus.device)
    steps = rows[rows >= 0].to(advantages.device)
    task = torch.zeros_like(paid.bonus)
    task[valid] = advantages.flatten()[steps].to(task)
    if not bool(task.isfinite().all()):
        raise ValueError("the advantages are not finite: the policy's values or the task's rewards are too large")
    about_task = automatic.observe_task(paid.extrinsic, paid.rollout.dones.numpy(), paid.rollout.valid.numpy())
    weighed = automatic.weigh(
        paid.bonus,
        waiting.embeddings,
        task,
        strength=torch.as_tensor(paid.weights).to(task.device),
        extrinsic_weight=weighting.extrinsic_weight,
        valid=valid,
        paid=waiting.payable,
    )
    total = weighed.advantages[valid]
    pushed_mean = (total - weighting.extrinsic_weight * task[valid]).mean()
    changed = advantages.flatten().clone()
    changed[steps] = (total - pushed_mean).to(changed)
    batch[Columns.ADVANTAGES] = changed.view(advantages.shape)
    return {**weighed.numbers, **about_task}


def _rows(episodes: Sequence[SingleAgentEpisode], shape: tuple[int, ...], waiting: UnweighedBonus) -> Array:
    """Where in the flattened batch each step is, (n_steps, n_envs); -1 for those that are not in it."""
    rows = np.full(waiting.paid.extrinsic.shape, -1)
    for episode, positions in _positions(episodes, shape):
        column, start, length = waiting.places.get(part_name(episode), (0, 0, 0))
        if not 0 < length <= len(episode):
            raise ValueError(
                f"a learner connector has added or shortened the episode {episode.id_!r}, so weight='auto' does not "
                "know which bonus belongs to it: use a number as weight"
            )
        rows[start : start + length, column] = positions[:length]
    return rows


def _positions(
    episodes: Sequence[SingleAgentEpisode], shape: tuple[int, ...]
) -> Iterator[tuple[SingleAgentEpisode, Array]]:
    """Every episode with the places of its steps in the flattened batch, which is padded for recurrent modules."""
    lengths = list(map(len, episodes))
    positions = unpad_data_if_necessary(lengths, np.arange(prod(shape)).reshape(shape))
    return zip(episodes, np.split(positions, np.cumsum(lengths)[:-1]), strict=True)
