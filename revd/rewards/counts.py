"""Counts of visits: MBIE-EB (Strehl & Littman, 2008), hashed as in #Exploration (Tang et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from revd.rewards.config import EmbeddingConfig, RewardConfig, require_choice, require_integer
from revd.rewards.embedding import EmbeddingReward
from revd.rewards.metrics import Mean, total
from revd.rewards.visits import EpisodeVisits, VisitTable, state_keys
from revd.spaces import is_countable

if TYPE_CHECKING:
    from revd.rollout import Rollout
    from revd.spaces import Space

Mode = Literal["auto", "exact", "hash"]
Scope = Literal["lifelong", "episode", "both"]
#: The most bits of a hash, which is kept as an int64.
LARGEST_HASH = 63


@dataclass(frozen=True, kw_only=True)
class CountsConfig(EmbeddingConfig):
    """Parameters of the counts.

    Attributes:
        mode: "exact" counts equal observations, "hash" observations whose embeddings have the same hash. "auto" is
            "exact" for discrete spaces and small integer Boxes, else "hash".
        scope: Visits of the whole training ("lifelong"), of the running true "episode", or the product of "both".
        hash_bits: Bits of a hash: the more, the finer states are told apart.
        memory_size: States kept in each table; those visited longest ago are forgotten first.
    """

    mode: Mode = "auto"
    scope: Scope = "lifelong"
    hash_bits: int = 32
    memory_size: int = 1_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("mode", self.mode, get_args(Mode))
        require_choice("scope", self.scope, get_args(Scope))
        require_integer("hash_bits", self.hash_bits, minimum=1, maximum=LARGEST_HASH)
        require_integer("memory_size", self.memory_size, minimum=1)


class Counts(EmbeddingReward):
    """Pays each state for how rarely it was visited.

    ::

        r^_t = 1 / sqrt(n(s_t))                        scope="lifelong" or "episode"
        r^_t = 1 / sqrt(n(s_t) * n_ep(s_t))            scope="both"

    n counts the visits of s_t by all environments up to now, itself included, in order of time and then of
    environments. n_ep counts those of its environment's true episode, earlier rollouts included. With mode="hash",
    states are the same if their hashes are: the signs of random projections of the frozen embedding,

        h(s) = sign( A phi(s) ),      A ~ N(0, 1)^(bits x d)

    Metrics: `visits` (mean n), `episode_visits` (mean n_ep), `states` (states in the lifelong table), `bonus_mean`.
    """

    advice = "States that recur exactly: grids, rooms, discrete spaces."
    config_type: ClassVar[type[RewardConfig]] = CountsConfig
    config: CountsConfig
    uses_successors = False
    projection: Tensor

    def __init__(self, observation_space: Space, action_space: Space, n_envs: int, **parameters: Any) -> None:
        super().__init__(observation_space, action_space, n_envs, **parameters)
        config = self.config
        generator = torch.Generator().manual_seed(config.seed)
        shape = (self.encoder.embedding_size, config.hash_bits)
        self.register_buffer("projection", torch.randn(shape, generator=generator))
        self.lifelong = VisitTable(config.memory_size) if config.scope != "episode" else None
        self.episodic = EpisodeVisits(n_envs, config.memory_size) if config.scope != "lifelong" else None

    @property
    def exact(self) -> bool:
        """Whether observations are counted rather than hashes of embeddings."""
        return self.config.mode == "exact" or (self.config.mode == "auto" and is_countable(self.observation_space))

    def end_episodes(self) -> None:
        """Start the counts of all episodes from zero."""
        if self.episodic is not None:
            self.episodic.end_episodes()

    def bonus(self, rollout: Rollout) -> Tensor:
        """1 / sqrt(n(s_t)), or with the product of both counts."""
        keys = self._keys(rollout)
        product = torch.ones(len(keys), device=self.device)
        if self.lifelong is not None:
            visits = self.lifelong.add(keys, torch.zeros_like(keys))
            self.record(visits=Mean(total(visits), len(keys)), states=float(len(self.lifelong)))
            product *= visits
        if self.episodic is not None:
            visits = self.episodic.add(keys[:, None], rollout)[:, 0]
            self.record(episode_visits=Mean(total(visits), len(keys)))
            product *= visits
        bonus = torch.zeros(rollout.dones.shape, device=self.device)
        bonus[rollout.valid_on(self.device)] = product.rsqrt()
        return bonus

    def _keys(self, rollout: Rollout) -> Tensor:
        """A number for the state of each valid step, (n,) int64, in order of time."""
        if self.exact:
            (keys,) = rollout.states.evaluate(partial(state_keys, self.observation_space), "observations")
            return keys.to(self.device)
        embeddings = self.embed(rollout, rollout.observations)[rollout.valid_on(self.device)]
        bits = (embeddings @ self.projection > 0).long()
        return (bits << torch.arange(self.config.hash_bits, device=self.device)).sum(dim=-1)
