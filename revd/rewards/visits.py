"""How often states were visited, in buffers: over the whole training, or in the running episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from revd.functional.hashing import combine, fingerprints
from revd.rollout import WIDER
from revd.spaces import dict_parts

if TYPE_CHECKING:
    from revd.rollout import Observations, Rollout
    from revd.spaces import Space


def state_keys(space: Space, observations: Observations) -> Tensor:
    """A number for each observation, (n, *shape) -> (n,) int64, equal for equal observations."""
    parts = dict_parts(space)
    if parts is None:
        assert isinstance(observations, Tensor)
        return fingerprints(observations.to(_own_type(space)))
    assert isinstance(observations, dict)
    first, *others = (state_keys(part, observations[name]) for name, part in parts.items())
    for keys in others:
        first = combine(first, keys)
    return first


def _own_type(space: Space) -> torch.dtype:
    """One type for all observations of a space, so that equal ones have equal bytes."""
    dtype = torch.as_tensor(np.zeros((), space.dtype)).dtype
    return torch.float32 if dtype.is_floating_point else WIDER.get(dtype, dtype)


#: Before the names of the buffers with the rows that wait.
WAITING = "waiting_"


class VisitTable(nn.Module):
    """The number of visits of each key, in buffers that change size while training.

    New rows of a large table wait in a small one, so that the large one is copied rarely: once for every eighth of its
    rows.

    Args:
        capacity: Keys that are kept from call to call, and at most an eighth more; those visited longest ago are
            forgotten, and then count as new.
    """

    columns = ("keys", "visits", "groups", "last")
    keys: Tensor
    visits: Tensor
    groups: Tensor
    last: Tensor
    clock: Tensor

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        for name in self.columns:
            self.register_buffer(name, torch.zeros(0, dtype=torch.int64))
            # Never saved: `state_dict` moves these rows to the large table first.
            self.register_buffer(WAITING + name, torch.zeros(0, dtype=torch.int64), persistent=False)
        self.register_buffer("clock", torch.zeros((), dtype=torch.int64))

    def __len__(self) -> int:
        return len(self.keys) + len(self._column(WAITING, "keys"))

    def add(self, keys: Tensor, groups: Tensor) -> Tensor:
        """Count visits in order of time, (n,); return the number of each, its key's earlier visits and itself.

        Args:
            keys: (n,) int64.
            groups: (n,) int64, by which `keep` selects; it must depend on the key alone.
        """
        found, inverse, counts = keys.unique(return_inverse=True, return_counts=True)
        order = inverse.argsort(stable=True)
        starts = counts.cumsum(0) - counts
        ranks = torch.empty_like(keys)
        ranks[order] = torch.arange(1, len(keys) + 1, device=keys.device) - starts[inverse[order]]
        latest = order[starts + counts - 1]
        earlier = self._store(found, counts, groups[latest], self.clock + latest)
        self.clock += len(keys)
        return earlier[inverse] + ranks

    def keep(self, selected: Tensor) -> None:
        """Forget the rows that are not selected, (m,) bool, after `settle`."""
        for name in self.columns:
            setattr(self, name, getattr(self, name)[selected])

    def settle(self) -> None:
        """Move the rows that wait to the large table."""
        waiting = [self._column(WAITING, name) for name in self.columns]
        if len(waiting[0]):
            self._insert("", *waiting)
            for name, rows in zip(self.columns, waiting, strict=True):
                setattr(self, WAITING + name, rows[:0])

    def _store(self, keys: Tensor, counts: Tensor, *others: Tensor) -> Tensor:
        """Add counts to the visits of distinct keys, in ascending order; return their visits before."""
        earlier, is_new = torch.zeros_like(keys), torch.ones_like(keys, dtype=torch.bool)
        for level in ("", WAITING):
            known, places = self._find(level, keys)
            earlier[known] = self._column(level, "visits")[places]
            for name, values in zip(self.columns, (keys, earlier + counts, *others), strict=True):
                self._column(level, name)[places] = values[known]
            is_new[known] = False
        new = is_new.nonzero()[:, 0]
        self._insert(WAITING, *(values[new] for values in (keys, counts, *others)))
        if len(self._column(WAITING, "keys")) > len(self.keys) // 8:
            self.settle()
        if len(self) > self.capacity + self.capacity // 8:
            self.settle()
            oldest = self.last.sort().values[-self.capacity]
            self.keep(self.last >= oldest)
        return earlier

    def _column(self, level: str, name: str) -> Tensor:
        column: Tensor = getattr(self, level + name)
        return column

    def _find(self, level: str, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Which keys are in a table, and in which of its rows."""
        table = self._column(level, "keys")
        if len(table) == 0 or len(keys) == 0:
            return keys[:0], keys[:0]
        rows = torch.searchsorted(table, keys).clamp(max=len(table) - 1)
        known = (table[rows] == keys).nonzero()[:, 0]
        return known, rows[known]

    def _insert(self, level: str, keys: Tensor, *others: Tensor) -> None:
        """Insert rows that are not in a table, in the order of their keys."""
        table = self._column(level, "keys")
        # The new row i comes after as many others as there are smaller old keys, and i new ones.
        places = torch.searchsorted(table, keys) + torch.arange(len(keys), device=keys.device)
        is_old = torch.ones(len(table) + len(keys), dtype=torch.bool, device=keys.device)
        is_old[places] = False
        old = is_old.nonzero()[:, 0]
        for name, values in zip(self.columns, (keys, *others), strict=True):
            column = self._column(level, name)
            merged = column.new_empty(len(is_old))
            merged[places], merged[old] = values, column
            setattr(self, level + name, merged)

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.settle()
        super()._save_to_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in self.columns:
            saved = state_dict.get(prefix + name)
            if saved is not None and saved.ndim == 1:
                setattr(self, name, self.keys.new_zeros(saved.shape))
                setattr(self, WAITING + name, self.keys.new_zeros(0))
        super()._load_from_state_dict(state_dict, prefix, *args)


class EpisodeVisits(nn.Module):
    """The number of visits of each key in the running true episode of each environment, over rollouts.

    Args:
        n_envs: Environments.
        capacity: See `VisitTable`; for all environments together.
    """

    episodes: Tensor

    def __init__(self, n_envs: int, capacity: int) -> None:
        super().__init__()
        self.table = VisitTable(capacity)
        # The number of each environment's running episode; all numbers of one environment have the same remainder.
        self.register_buffer("episodes", torch.arange(n_envs))

    def add(self, keys: Tensor, rollout: Rollout) -> Tensor:
        """Count visits of c keys in each valid step, (n, c) in order of time; return the numbers of visits so far."""
        device, n_envs = self.episodes.device, len(self.episodes)
        valid = rollout.valid_on(device)
        ended = (rollout.dones.to(device) & valid).long()
        episodes = self.episodes + n_envs * (ended.cumsum(dim=0) - ended)
        groups = episodes[valid][:, None].expand_as(keys).flatten()
        counts = self.table.add(combine(keys.flatten(), groups), groups).reshape(keys.shape)
        self.episodes += n_envs * ended.sum(dim=0)
        self.table.settle()
        self.table.keep(self.table.groups == self.episodes[self.table.groups % n_envs])
        return counts

    def end_episodes(self) -> None:
        """Forget the running episodes."""
        self.table.settle()
        self.table.keep(torch.zeros_like(self.table.keys, dtype=torch.bool))
