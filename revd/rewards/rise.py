"""RISE: Rényi State Entropy Maximization (Yuan et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from revd.functional import share_among_copies
from revd.rewards.config import NeighborConfig, RewardConfig, require
from revd.rewards.neighbors import NeighborReward

if TYPE_CHECKING:
    from torch import Tensor

    from revd.rollout import Rollout


@dataclass(frozen=True, kw_only=True)
class RISEConfig(NeighborConfig):
    """Parameters of RISE.

    Attributes:
        alpha: Order of the Rényi entropy, in (0, 1).
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.alpha < 1, "alpha", self.alpha, "inside (0, 1)")


class RISE(NeighborReward):
    """Pays each state for being far from its neighbours in its own segment: an estimate of the Rényi entropy.

    With E the embeddings of an environment's current segment::

        r^_t = mu_k(e_t, E)^(1 - alpha)

    mu_k is the distance to the k-th nearest *other* state of E. With merge_duplicates, E holds each state once, and
    each of its c exact copies is paid r^_t / sqrt(c). A state with fewer than k other states is paid 0.

    Metrics: `distance` (mean mu_k), `unpaid` (share of the rollout's steps without enough neighbours), `bonus_mean`.
    """

    advice = "Like RE3, but rare remote states are paid more."
    config_type: ClassVar[type[RewardConfig]] = RISEConfig
    config: RISEConfig
    uses_previous = False

    def bonus(self, rollout: Rollout) -> Tensor:
        """Pay mu_k^(1 - alpha) for the states of every segment."""
        distance, copies = self.distances_within_segments(rollout)
        # 1 - alpha > 0, so steps without enough neighbours stay at 0.
        return share_among_copies(distance ** (1 - self.config.alpha), copies)
