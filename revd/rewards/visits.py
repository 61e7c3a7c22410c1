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


class VisitTable(nn.Module):
    """The number of visits of each key, in buffers that change size while training.

    Args:
        capacity: Keys that are kept from call to call; those visited longest ago are forgotten, and then count as new.
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
        self.register_buffer("clock", torch.zeros((), dtype=torch.int64))

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
        known, earlier = self._find(found)
        self._store(known, found, earlier + counts, groups[latest], self.clock + latest)
        self.clock += len(keys)
        return earlier[inverse] + ranks

    def keep(self, selected: Tensor) -> None:
        """Forget the rows that are not selected, (m,) bool."""
        for name in self.columns:
            setattr(self, name, getattr(self, name)[selected])

    def _find(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Whether each key is in the table, and its visits."""
        if len(self.keys) == 0:
            return torch.zeros_like(keys, dtype=torch.bool), torch.zeros_like(keys)
        rows = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        known = self.keys[rows] == keys
        return known, torch.where(known, self.visits[rows], 0)

    def _store(self, known: Tensor, *rows: Tensor) -> None:
        """Overwrite the known rows, insert the others in the order of their keys, and drop rows above the capacity."""
        keys = rows[0]
        places = torch.searchsorted(self.keys, keys)
        # The new row i comes after as many others as there are smaller old keys, and i new ones.
        is_new = torch.zeros(len(self.keys) + int((~known).sum()), dtype=torch.bool, device=keys.device)
        inserted = places[~known]
        is_new[inserted + torch.arange(len(inserted), device=keys.device)] = True
        for name, values in zip(self.columns, rows, strict=True):
            column = getattr(self, name)
            column[places[known]] = values[known]
            merged = column.new_empty(len(is_new))
            merged[is_new], merged[~is_new] = values[~known], column
            setattr(self, name, merged)
        if len(self.keys) > self.capacity:
            oldest = self.last.sort().values[-self.capacity]
            self.keep(self.last >= oldest)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in self.columns:
            saved = state_dict.get(prefix + name)
            if saved is not None and saved.ndim == 1:
                setattr(self, name, self.keys.new_zeros(saved.shape))
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
        self.table.keep(self.table.groups == self.episodes[self.table.groups % n_envs])
        return counts

    def end_episodes(self) -> None:
        """Forget the running episodes."""
        self.table.keep(torch.zeros_like(self.table.keys, dtype=torch.bool))
