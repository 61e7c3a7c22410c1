"""A padded batch of segments, and the searches in it.

A segment is the set of states among which a k-NN reward searches: one environment's rollout, or its true episode so
far. Segments of unequal length are padded into batches, so that one search serves many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from revd.functional import episode_distances, neighbor_distances, visible_distances
from revd.rewards.metrics import Mean, total


@dataclass(frozen=True, kw_only=True, eq=False)
class Segments:
    """A padded batch of b segments.

    Indices and counts, every (b,), are on the host, so that reading them waits for no device. States and distances are
    on the device of the embeddings.

    Attributes:
        columns: (b,), the environment of each segment.
        starts: (b,), the step of the rollout at which its new states begin.
        carried: (b,), how many of its states come from earlier rollouts; they are not paid again.
        current: (b, n, d), its states in order of time: E.
        lengths: (b,), how many of the n rows count.
        previous: (b, m, d), the states of the segment before: E~.
        previous_lengths: (b,), how many of the m rows count; 0 where there is none.
        carried_nearest: (b, c), mu_1 of the carried states among all states before this rollout; inf in padding.
        running: (b,), whether the segment may continue in the next rollout.
    """

    columns: Tensor
    starts: Tensor
    carried: Tensor
    current: Tensor
    lengths: Tensor
    previous: Tensor
    previous_lengths: Tensor
    carried_nearest: Tensor
    running: Tensor

    @cached_property
    def n_new(self) -> Tensor:
        """(b,), on the host: how many states this rollout added to each segment."""
        return self.lengths - self.carried

    @cached_property
    def offsets(self) -> Tensor:
        """(1, p), on the host: 0, 1, … up to the largest number of new states."""
        return torch.arange(int(self.n_new.max()), device="cpu")[None]

    @cached_property
    def is_new(self) -> Tensor:
        """(b, p), on the host: False for padding."""
        return self.offsets < self.n_new[:, None]

    @cached_property
    def rows(self) -> Tensor:
        """(b, p), on the host: the rows of `current` that hold the new states; any row for padding."""
        return (self.carried[:, None] + self.offsets).clamp(max=self.current.shape[1] - 1)

    @cached_property
    def new_states(self) -> Tensor:
        """(b, p, d), the rows of `current` that this rollout added."""
        rows = to_device(self.rows, self.current.device)
        return self.current.gather(1, rows[..., None].expand(-1, -1, self.current.shape[-1]))

    def own_distances(self, k: int) -> Tensor:
        """mu_1 … mu_k of the new states, (b, p, k); inf where there are fewer others."""
        if not self.carried.any():
            lengths = _lengths_unless_full(self.lengths, self.current)
            return neighbor_distances(self.current, k=k, x_lengths=lengths)[:, : self.offsets.shape[1]]
        visible = self.lengths[:, None] * self.is_new
        return visible_distances(self.new_states, self.current, k=k, visible=visible, own=self.rows)

    def distances(self, k: int) -> tuple[Tensor, Tensor]:
        """mu_1 … mu_k and nu_1 … nu_k of the new states, each (b, p, k); inf where there are fewer states."""
        if not self.carried.any():
            own, previous = episode_distances(
                self.current,
                self.previous,
                k=k,
                current_lengths=_lengths_unless_full(self.lengths, self.current),
                previous_lengths=_lengths_unless_full(self.previous_lengths, self.previous),
            )
            return own[:, : self.offsets.shape[1]], previous[:, : self.offsets.shape[1]]
        visible = self.previous_lengths[:, None] * self.is_new
        return self.own_distances(k), visible_distances(self.new_states, self.previous, k=k, visible=visible)

    def nearest_carried(self) -> Tensor:
        """mu_1 of the carried states in the whole segment, (b, c): a new state may be nearer than all before."""
        most = self.carried_nearest.shape[1]
        if most == 0:
            return self.carried_nearest
        counts = {"x_lengths": self.carried, "y_lengths": self.n_new}
        to_new = neighbor_distances(self.current[:, :most], self.new_states, k=1, **counts)
        return torch.minimum(self.carried_nearest, to_new[..., 0])

    @property
    def copies(self) -> Tensor | None:
        """How many states of its segment equal each new state, (b, p); None if states are not merged."""
        return None

    def per_step(self, values: Tensor) -> Tensor:
        """Values of the new states, (b, p), for the steps that visited them: one for each, unless states are merged."""
        return values

    def nearest_by_row(self, nearest: Tensor) -> tuple[Tensor, Tensor]:
        """mu_1 of the carried states, (b, c), and of the new ones, (b, p), from those of all states."""
        most = self.carried_nearest.shape[1]
        return nearest[:, :most], nearest[:, most:]

    def duplicates(self, nearest: Tensor) -> Mean:
        """The share of states with an exact copy in their segment, from mu_1 of all states."""
        return Mean(total(nearest == 0), total(nearest < torch.inf))

    def take(self, per_step: Tensor) -> Tensor:
        """Select the values of the new states, (b, p, …), from those of all steps, (n_steps, n_envs, …)."""
        steps = (self.starts[:, None] + self.offsets).clamp(max=len(per_step) - 1)
        indices = steps * per_step.shape[1] + self.columns[:, None]
        return per_step.flatten(0, 1)[to_device(indices, per_step.device)]

    def put(self, per_step: Tensor, values: Tensor) -> None:
        """Write values of the new states, (b, p, …), to their steps of `per_step`, (n_steps, n_envs, …)."""
        segment, offset = self.is_new.nonzero(as_tuple=True)
        source = segment * self.offsets.shape[1] + offset
        target = (self.starts[segment] + offset) * per_step.shape[1] + self.columns[segment]
        source, target = to_device(torch.stack([source, target]), per_step.device)
        per_step.view(-1, *per_step.shape[2:])[target] = values.flatten(0, 1)[source]


def pad(sequences: Sequence[Tensor], rows: int = 0) -> tuple[Tensor, Tensor]:
    """Stack (n_i, d) tensors to (b, n, d) with zeros as padding, n at least `rows`; lengths, (b,), on the host."""
    lengths = [len(sequence) for sequence in sequences]
    longest = max(rows, *lengths)
    if min(lengths) == longest:
        return torch.stack(list(sequences)), torch.tensor(lengths, device="cpu")
    padded = sequences[0].new_zeros(len(sequences), longest, sequences[0].shape[-1])
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return padded, torch.tensor(lengths, device="cpu")


def to_device(indices: Tensor, device: torch.device) -> Tensor:
    """Copy indices from the host to the device without waiting for it."""
    return indices.to(device, non_blocking=True)


def _lengths_unless_full(lengths: Tensor, states: Tensor) -> Tensor | None:
    """The lengths for a search among states, (b, n, d); None if all rows count, so that it need not check them."""
    return None if bool((lengths == states.shape[1]).all()) else lengths
