"""REVD: Rewarding Episodic Visitation Discrepancy (Yuan, Li, Jin & Zeng, 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from revd.functional import discrepancy, divergence_from_distances, share_among_copies, spread
from revd.rewards.config import NeighborConfig, RewardConfig, require, require_positive
from revd.rewards.metrics import Mean, total
from revd.rewards.neighbors import NeighborReward

if TYPE_CHECKING:
    from revd.rewards.segments import Segments
    from revd.rollout import Rollout


@dataclass(frozen=True, kw_only=True)
class REVDConfig(NeighborConfig):
    """Parameters of REVD.

    Attributes:
        alpha: Order of the Rényi divergence, in (0, 1).
        eps: Added to the distance within the segment, so that the bonus of crowded states is finite.
        scale_by_spread: Multiply by L, so that staying in a small region does not pay.
    """

    alpha: float = 0.5
    eps: float = 1e-4
    scale_by_spread: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.alpha < 1, "alpha", self.alpha, "inside (0, 1)")
        # For a smaller alpha, rounding makes 1 - alpha equal to 1.
        require(1 - self.alpha < 1, "alpha", self.alpha, "at least 1e-16")
        require_positive("eps", self.eps)


class REVD(NeighborReward):
    """Pays each state for being far from the previous segment and not crowded in its own.

    With E the embeddings of an environment's current segment and E~ those of its previous one::

        r^_t = L(E) * [ nu_k(e_t, E~) / (mu_k(e_t, E) + eps) ]^(1 - alpha)
        L(E) = tanh( mean_t mu_1(e_t, E) )

    mu_k is the distance to the k-th nearest *other* state of E, nu_k that to the k-th nearest state of E~. The first
    segment is paid 0. With merge_duplicates, the default, E and E~ hold each state once, and each of its c exact copies
    in E is paid r^_t / sqrt(c); where nothing repeats, this changes no bit. If so few distinct states are left that the
    k-th is missing, the farthest one takes its place. With boundary="episode" a state that has fewer than k neighbours
    is paid 0 as well.

    Metrics: `divergence` (the Rényi divergence estimate between the two segments), `spread` (mean L), `discrepancy`
    (the paper's mean of (nu / mu)^(1 - alpha), eps included), `duplicates` (share of states with an exact copy in
    their segment), `unpaid` (share of the rollout's steps without enough neighbours), `bonus_mean`.
    """

    advice = "The default: rare rewards, vectors or images, nothing to train."
    config_type: ClassVar[type[RewardConfig]] = REVDConfig
    config: REVDConfig
    uses_previous = True

    def bonus(self, rollout: Rollout) -> Tensor:
        """L(E) [ nu_k / (mu_k + eps) ]^(1 - alpha) for the states of every segment."""
        config = self.config
        bonus = torch.zeros(rollout.n_steps, rollout.n_envs, device=self.device)
        found = torch.zeros_like(bonus, dtype=torch.bool)
        metrics = []
        for segments in self.memory.segments(self.embed(rollout, rollout.observations), rollout):
            states = self.states_of(segments)
            own, previous = states.distances(config.k)
            mu_k, nu_k = own[..., -1], previous[..., -1]
            nearest = torch.cat([states.nearest_carried(), own[..., 0]], dim=1)
            self.memory.keep_nearest(segments, *states.nearest_by_row(nearest))
            scale = spread(nearest)
            ratio = discrepancy(mu_k, nu_k, eps=config.eps, alpha=config.alpha)
            pay = states.per_step(scale[:, None] * ratio if config.scale_by_spread else ratio)
            segments.put(bonus, share_among_copies(pay, states.copies))
            has_neighbors = states.per_step((mu_k < torch.inf) & (nu_k < torch.inf))
            segments.put(found, has_neighbors)
            # Both factors are 0 where they are undefined, which adds nothing to their sums.
            paid = total(has_neighbors)
            metrics.append(
                {
                    "divergence": self._divergence(states, mu_k, nu_k),
                    "spread": Mean(total(scale), int((segments.lengths > 1).sum())),
                    "discrepancy": Mean(total(states.per_step(ratio)), paid),
                    "duplicates": states.duplicates(nearest),
                    "unpaid": Mean(int(segments.n_new.sum()) - paid, int(segments.n_new.sum())),
                }
            )
        self.set_paid(found)
        self.record(**{name: reduce(add, (part[name] for part in metrics)) for name in metrics[0]})
        return bonus

    def _divergence(self, segments: Segments, mu_k: Tensor, nu_k: Tensor) -> Mean:
        config = self.config
        estimates = divergence_from_distances(
            mu_k,
            nu_k,
            n=segments.lengths,
            m=segments.previous_lengths,
            dimension=segments.current.shape[-1],
            k=config.k,
            alpha=config.alpha,
        )
        defined = estimates.abs() < torch.inf
        return Mean(total(torch.where(defined, estimates, 0.0)), total(defined))
