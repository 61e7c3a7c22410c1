"""RE3: Random Encoders for Efficient Exploration (Seo et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from revd.functional import share_among_copies
from revd.rewards.config import NeighborConfig, RewardConfig
from revd.rewards.neighbors import NeighborReward

if TYPE_CHECKING:
    from revd.rollout import Rollout


@dataclass(frozen=True, kw_only=True)
class RE3Config(NeighborConfig):
    """Parameters of RE3.

    Attributes:
        log: Pay the logarithm of the distance plus one rather than the distance.
    """

    log: bool = True


class RE3(NeighborReward):
    """Pays each state for being far from its neighbours in its own segment: an estimate of the state entropy.

    With E the embeddings of an environment's current segment::

        r^_t = log(mu_k(e_t, E) + 1)        or, with log=False,        r^_t = mu_k(e_t, E)

    mu_k is the distance to the k-th nearest *other* state of E. With merge_duplicates, E holds each state once, and
    each of its c exact copies is paid r^_t / sqrt(c). A state with fewer than k other states is paid 0.

    Metrics: `distance` (mean mu_k), `unpaid` (share of the rollout's steps without enough neighbours), `bonus_mean`.
    """

    advice = "Few repeated states; cheap, and needs no earlier episode."
    config_type: ClassVar[type[RewardConfig]] = RE3Config
    config: RE3Config
    uses_previous = False

    def bonus(self, rollout: Rollout) -> Tensor:
        """Pay log(mu_k + 1), or mu_k, for the states of every segment."""
        distance, copies = self.distances_within_segments(rollout)
        return share_among_copies(torch.log1p(distance) if self.config.log else distance, copies)
