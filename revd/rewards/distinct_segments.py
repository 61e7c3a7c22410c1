"""The distinct states of segments, in which exact copies of a state are one."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from torch import Tensor

from revd.functional import Distinct, distinct_states
from revd.rewards.metrics import Mean, total
from revd.rewards.segments import Segments, to_device


def merge_duplicates(segments: Segments, *, k: int) -> Segments:
    """Merge the exact copies of states in E, and those in E~; the same segments if there are none.

    Args:
        segments: The segments of a batch.
        k: They are padded to at least k + 1 rows, so that a search for k neighbours is always possible.
    """
    sets = [(segments.current, segments.lengths)]
    if segments.previous_lengths.any():
        sets.append((segments.previous, segments.previous_lengths))
    found = distinct_states(*sets)
    if not any((one.counts < lengths).any() for one, (_, lengths) in zip(found, sets, strict=True)):
        return segments
    merged = DistinctSegments.of(segments, found[0], k)
    if len(found) == 1:
        return merged
    return replace(merged, previous=_take_rows(segments.previous, found[1], rows=k), previous_lengths=found[1].counts)


@dataclass(frozen=True, kw_only=True, eq=False)
class DistinctSegments(Segments):
    """Segments whose rows are their distinct states, in order of their last visits.

    So the states that no step of this rollout visited come first: these are the carried ones. The others are new, also
    if they had been visited before. Where merging leaves fewer than k neighbours, the farthest of them counts as the
    k-th, so that small worlds are paid too.

    Attributes:
        visits: The segments with a row for each visit.
        numbers: (b, n), which distinct state each visit is.
        visits_of: (b, n), how many visits the state of each visit has.
    """

    visits: Segments
    numbers: Tensor
    visits_of: Tensor

    @classmethod
    def of(cls, visits: Segments, distinct: Distinct, k: int) -> DistinctSegments:
        """The distinct states of a batch with a row for each visit."""
        carried = _count_carried(visits, distinct)
        changed = {
            "carried": carried,
            "current": _take_rows(visits.current, distinct, rows=k + 1),
            "lengths": distinct.counts,
            "carried_nearest": _take_nearest(visits, distinct, carried),
        }
        same = {entry.name: getattr(visits, entry.name) for entry in fields(Segments)}
        return cls(**{**same, **changed}, visits=visits, numbers=distinct.numbers, visits_of=distinct.copies)

    def own_distances(self, k: int) -> Tensor:
        """mu_1 … mu_k of the new distinct states."""
        return _farthest_for_missing(super().own_distances(k), self.visits.lengths > k)

    def distances(self, k: int) -> tuple[Tensor, Tensor]:
        """mu_1 … mu_k and nu_1 … nu_k of the new distinct states."""
        own, previous = super().distances(k)
        enough, enough_previous = self.visits.lengths > k, self.visits.previous_lengths >= k
        return _farthest_for_missing(own, enough), _farthest_for_missing(previous, enough_previous)

    @property
    def copies(self) -> Tensor:
        """How many visits the state of each new visit has, (b, p) float32."""
        return self.visits_of.gather(1, self._new_rows).float()

    def per_step(self, values: Tensor) -> Tensor:
        """Values of the new distinct states for all steps that visited them, (b, p); 0 for padding."""
        places = self.numbers.gather(1, self._new_rows) - self._carried
        found = values.gather(1, places.clamp(min=0))
        return found.masked_fill(to_device(~self.visits.is_new, found.device), 0)

    def nearest_by_row(self, nearest: Tensor) -> tuple[Tensor, Tensor]:
        """mu_1 of every carried visit, (b, c), and of every new one, (b, p), from those of the distinct states."""
        behind = self.numbers - self._carried + self.carried_nearest.shape[1]
        by_row = nearest.gather(1, torch.where(self.numbers < self._carried, self.numbers, behind))
        return by_row[:, : self.visits.carried_nearest.shape[1]], by_row.gather(1, self._new_rows)

    def duplicates(self, nearest: Tensor) -> Mean:
        """The share of visits whose state has more than one in its segment."""
        lengths = self.visits.lengths
        return Mean(total(self.visits_of > 1), int(lengths[lengths > 1].sum()))

    @cached_property
    def _carried(self) -> Tensor:
        return to_device(self.carried[:, None], self.numbers.device)

    @cached_property
    def _new_rows(self) -> Tensor:
        return to_device(self.visits.rows, self.numbers.device)


def _take_rows(states: Tensor, distinct: Distinct, *, rows: int) -> Tensor:
    """The distinct states, (b, m, d), m at least `rows`; what lies beyond their counts is padding."""
    b, n, d = states.shape
    width = max(rows, int(distinct.counts.max()))
    chosen = distinct.rows[:, :width] + torch.arange(0, b * n, n, device=states.device)[:, None]
    return states.reshape(-1, d).index_select(0, chosen.flatten()).view(b, width, d)


def _farthest_for_missing(distances: Tensor, enough: Tensor) -> Tensor:
    """Replace missing neighbours, (b, p, k), by the farthest found, in segments that had enough visits, (b,)."""
    farthest = torch.where(distances < torch.inf, distances, 0.0).cummax(dim=-1).values
    some = (distances[..., :1] < torch.inf) & to_device(enough[:, None, None], distances.device)
    return torch.where(some, farthest, distances)


def _count_carried(visits: Segments, distinct: Distinct) -> Tensor:
    """(b,), on the host: how many distinct states were visited in earlier rollouts only."""
    if not visits.carried.any():
        return visits.carried
    ends = torch.arange(distinct.rows.shape[1], device="cpu") < distinct.counts[:, None]
    return ((distinct.rows.cpu() < visits.carried[:, None]) & ends).sum(dim=1)


def _take_nearest(visits: Segments, distinct: Distinct, carried: Tensor) -> Tensor:
    """mu_1 of the carried distinct states, (b, c); without columns for a method that keeps none."""
    known = visits.carried_nearest
    most = int(carried.max()) if known.shape[1] > 0 else 0
    beyond = to_device(torch.arange(most, device="cpu") >= carried[:, None], known.device)
    rows = distinct.rows[:, :most].masked_fill(beyond, 0)
    return known.gather(1, rows).masked_fill(beyond, torch.inf)
