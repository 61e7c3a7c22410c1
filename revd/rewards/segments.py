"""Cutting rollouts into segments, and remembering the states that a later segment is compared with.

A segment is the set of states among which a k-NN reward searches: one environment's rollout, or its true episode so
far. Segments of unequal length are padded into batches, so that one search serves many of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from revd.functional import episode_distances, neighbor_distances, visible_distances

if TYPE_CHECKING:
    from revd.rollout import Rollout


@dataclass(frozen=True, kw_only=True, eq=False)
class Segments:
    """A padded batch of b segments.

    Where its states come from and belong, every (b,), is known on the host and stays there, so that asking for it
    waits for no device; states and what is measured of them are where the embeddings are.

    Attributes:
        columns: (b,), the environment of each segment.
        starts: (b,), the step of the rollout at which its new states begin.
        carried: (b,), how many of its states come from earlier rollouts; those are not paid again.
        current: (b, n, d), its states in order of time: E.
        lengths: (b,), how many of the n rows count.
        previous: (b, m, d), the states of the segment before: E~.
        previous_lengths: (b,), how many of the m rows count; 0 where there is none.
        carried_nearest: (b, c), mu_1 of the carried states among all states before this rollout; inf in padding.
        running: (b,), whether the segment may go on in the next rollout.
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
        """(b,), on the host: how many states each segment has got in this rollout."""
        return self.lengths - self.carried

    @cached_property
    def offsets(self) -> Tensor:
        """(1, p), on the host: counts the new states of a segment, up to the largest number of them."""
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
        """(b, p, d), the rows of `current` that were added by this rollout."""
        rows = _upload(self.rows, self.current.device)
        return self.current.gather(1, rows[..., None].expand(-1, -1, self.current.shape[-1]))

    def own_distances(self, k: int) -> Tensor:
        """mu_1 … mu_k of the new states: (b, p, k), inf where there are not so many others."""
        if not self.carried.any():
            lengths = _unless_full(self.lengths, self.current)
            return neighbor_distances(self.current, k=k, x_lengths=lengths)[:, : self.offsets.shape[1]]
        visible = self.lengths[:, None] * self.is_new
        return visible_distances(self.new_states, self.current, k=k, visible=visible, own=self.rows)

    def distances(self, k: int) -> tuple[Tensor, Tensor]:
        """mu_1 … mu_k and nu_1 … nu_k of the new states, each (b, p, k), inf where there are not so many states."""
        if not self.carried.any():
            own, previous = episode_distances(
                self.current,
                self.previous,
                k=k,
                current_lengths=_unless_full(self.lengths, self.current),
                previous_lengths=_unless_full(self.previous_lengths, self.previous),
            )
            return own[:, : self.offsets.shape[1]], previous[:, : self.offsets.shape[1]]
        visible = self.previous_lengths[:, None] * self.is_new
        return self.own_distances(k), visible_distances(self.new_states, self.previous, k=k, visible=visible)

    def nearest_carried(self) -> Tensor:
        """mu_1 of the carried states among all of the segment, (b, c): a new state may be nearer than any before."""
        most = self.carried_nearest.shape[1]
        if most == 0:
            return self.carried_nearest
        counts = {"x_lengths": self.carried, "y_lengths": self.n_new}
        to_new = neighbor_distances(self.current[:, :most], self.new_states, k=1, **counts)
        return torch.minimum(self.carried_nearest, to_new[..., 0])

    def take(self, per_step: Tensor) -> Tensor:
        """From a value for every step of the rollout, (n_steps, n_envs, …), those of the new states, (b, p, …)."""
        steps = (self.starts[:, None] + self.offsets).clamp(max=len(per_step) - 1)
        indices = steps * per_step.shape[1] + self.columns[:, None]
        return per_step.flatten(0, 1)[_upload(indices, per_step.device)]

    def put(self, per_step: Tensor, values: Tensor) -> None:
        """Write values of the new states, (b, p, …), to their steps of `per_step`, (n_steps, n_envs, …)."""
        segment, offset = self.is_new.nonzero(as_tuple=True)
        source = segment * self.offsets.shape[1] + offset
        target = (self.starts[segment] + offset) * per_step.shape[1] + self.columns[segment]
        source, target = _upload(torch.stack([source, target]), per_step.device)
        per_step.view(-1, *per_step.shape[2:])[target] = values.flatten(0, 1)[source]


class SegmentMemory(nn.Module, ABC):
    """Cuts each rollout into segments and keeps what later ones need, in buffers that change size while training.

    Args:
        n_envs: Environments.
        embedding_size: d.
        k: Segments are padded to at least k + 1 rows, so that a search for k neighbours is always possible.
        keep_previous: Whether segments are compared with the one before; its states are not kept otherwise.
    """

    def __init__(self, n_envs: int, embedding_size: int, *, k: int, keep_previous: bool) -> None:
        super().__init__()
        self.k = k
        self.keep_previous = keep_previous
        for name in self.sets:
            self.register_buffer(name, torch.zeros(n_envs, 0, 1 if name == "nearest" else embedding_size))
            self.register_buffer(f"{name}_lengths", torch.zeros(n_envs, dtype=torch.int64))

    #: What is kept for each environment: sets of states, (n, d), or of numbers about them, (n, 1).
    sets: tuple[str, ...] = ("previous",)

    @abstractmethod
    def segments(self, embeddings: Tensor, rollout: Rollout) -> list[Segments]:
        """Cut the rollout, whose embeddings are (n_steps, n_envs, d), and remember its states."""

    def keep_nearest(self, segments: Segments, carried: Tensor, new: Tensor) -> None:
        """Remember mu_1 of the states of running segments, (b, c) and (b, p), where they are carried on."""

    def end_episodes(self) -> None:
        """All environments were reset from outside: what runs ends here."""

    def _recall(self, name: str) -> list[Tensor]:
        """The states of one set, a tensor for each environment."""
        states: Tensor = getattr(self, name)
        lengths: Tensor = getattr(self, f"{name}_lengths")
        return [column[:length] for column, length in zip(states, lengths.tolist(), strict=True)]

    def _remember(self, name: str, states: Sequence[Tensor]) -> None:
        padded, lengths = pad(states)
        setattr(self, name, padded)
        setattr(self, f"{name}_lengths", _upload(lengths, padded.device))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in self.sets:
            saved = state_dict.get(prefix + name)
            buffer: Tensor = getattr(self, name)
            # The number of environments and d must agree; only the number of states may differ.
            if saved is not None and (saved.shape[0], saved.shape[2:]) == (buffer.shape[0], buffer.shape[2:]):
                setattr(self, name, buffer.new_zeros(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


class RolloutMemory(SegmentMemory):
    """A segment is one environment's rollout, the previous one its last rollout with at least k states."""

    def segments(self, embeddings: Tensor, rollout: Rollout) -> list[Segments]:
        """One batch with a segment for each environment."""
        n_steps, n_envs, _ = embeddings.shape
        current = embeddings.transpose(0, 1).contiguous()
        lengths = torch.full((n_envs,), n_steps, device="cpu") if rollout.lengths is None else rollout.lengths
        recalled = self._recall("previous")
        previous, previous_lengths = pad(recalled, rows=self.k)
        zeros = torch.zeros_like(lengths)
        batch = Segments(
            columns=torch.arange(n_envs, device="cpu"),
            starts=zeros,
            carried=zeros,
            current=current,
            lengths=lengths,
            previous=previous,
            previous_lengths=previous_lengths,
            carried_nearest=current.new_zeros(n_envs, 0),
            running=torch.zeros_like(lengths, dtype=torch.bool),
        )
        if self.keep_previous:
            kept = zip(current, recalled, lengths.tolist(), strict=True)
            self._remember("previous", [new[:length] if length >= self.k else old for new, old, length in kept])
        return [batch]


class EpisodeMemory(SegmentMemory):
    """A segment is one true episode so far; the previous one is the environment's last with at least k states.

    Args:
        n_envs: Environments.
        embedding_size: d.
        k: See `SegmentMemory`.
        keep_previous: See `SegmentMemory`.
        capacity: States of one episode that are kept from rollout to rollout; the oldest are dropped.
    """

    sets = ("previous", "running", "nearest")

    def __init__(self, n_envs: int, embedding_size: int, *, k: int, keep_previous: bool, capacity: int) -> None:
        super().__init__(n_envs, embedding_size, k=k, keep_previous=keep_previous)
        self.capacity = capacity

    def segments(self, embeddings: Tensor, rollout: Rollout) -> list[Segments]:
        """The episodes that have a step in the rollout, in batches of similar length."""
        running, previous, nearest = (self._recall(name) for name in ("running", "previous", "nearest"))
        pieces: list[_Piece] = []
        for column, (start, stop, ended) in _episodes(rollout):
            states = torch.cat([running[column], embeddings[start:stop, column]])
            pieces.append(
                _Piece(column, start, len(running[column]), states, previous[column], nearest[column], not ended)
            )
            running[column] = states[:0] if ended else states[-self.capacity :]
            if ended:
                nearest[column] = nearest[column][:0]
                previous[column] = self._successor(states, previous[column])
        for name, kept in (("running", running), ("previous", previous), ("nearest", nearest)):
            self._remember(name, kept)
        return [_batch(group, self.k) for group in _similar_lengths(pieces)]

    def keep_nearest(self, segments: Segments, carried: Tensor, new: Tensor) -> None:
        """Remember mu_1 beside the running episodes, so that the next rollout need not search among carried states.

        Neighbours that the capacity has dropped since still count.
        """
        nearest = self._recall("nearest")
        for index in segments.running.nonzero()[:, 0].tolist():
            before, length = int(segments.carried[index]), int(segments.lengths[index])
            states = torch.cat([carried[index, :before], new[index, : length - before]])
            nearest[int(segments.columns[index])] = states[-self.capacity :, None]
        self._remember("nearest", nearest)

    def end_episodes(self) -> None:
        """Running episodes count as completed."""
        running, previous = self._recall("running"), self._recall("previous")
        self._remember("previous", [self._successor(*pair) for pair in zip(running, previous, strict=True)])
        self._remember("running", [states[:0] for states in running])
        self._remember("nearest", [values[:0] for values in self._recall("nearest")])

    def _successor(self, ended: Tensor, previous: Tensor) -> Tensor:
        """What the next episode is compared with after this one `ended`."""
        long_enough = self.keep_previous and len(ended) >= self.k
        return ended[-self.capacity :] if long_enough else previous


def pad(sequences: Sequence[Tensor], rows: int = 0) -> tuple[Tensor, Tensor]:
    """Stack (n_i, d) tensors to (b, n, d), n at least `rows`, filled up with zeros; lengths, (b,), on the host."""
    lengths = [len(sequence) for sequence in sequences]
    longest = max(rows, *lengths)
    if min(lengths) == longest:
        return torch.stack(list(sequences)), torch.tensor(lengths, device="cpu")
    padded = sequences[0].new_zeros(len(sequences), longest, sequences[0].shape[-1])
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return padded, torch.tensor(lengths, device="cpu")


def _upload(indices: Tensor, device: torch.device) -> Tensor:
    """What the host knows, for the device; the copy does not wait for what the device is doing."""
    return indices.to(device, non_blocking=True)


def _unless_full(lengths: Tensor, states: Tensor) -> Tensor | None:
    """The lengths for a search among states, (b, n, d); None where all rows count, which spares it the question."""
    return None if bool((lengths == states.shape[1]).all()) else lengths


class _Piece(NamedTuple):
    """One segment before padding."""

    column: int
    start: int
    carried: int
    states: Tensor
    previous: Tensor
    nearest: Tensor
    running: bool


def _episodes(rollout: Rollout) -> list[tuple[int, tuple[int, int, bool]]]:
    """(column, (start, stop, ended)) of every true episode's part in the rollout."""
    lengths = [rollout.n_steps] * rollout.n_envs if rollout.lengths is None else rollout.lengths.tolist()
    dones = rollout.dones.cpu()
    parts = []
    for column, length in enumerate(lengths):
        start = 0
        for stop in (dones[:length, column].nonzero()[:, 0] + 1).tolist():
            parts.append((column, (start, stop, True)))
            start = stop
        if start < length:
            parts.append((column, (start, length, False)))
    return parts


def _similar_lengths(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Group by length to within a factor of two, which bounds what padding wastes."""
    groups: dict[int, list[_Piece]] = defaultdict(list)
    for piece in pieces:
        groups[max(len(piece.states), len(piece.previous)).bit_length()].append(piece)
    return list(groups.values())


def _batch(pieces: list[_Piece], k: int) -> Segments:
    current, lengths = pad([piece.states for piece in pieces], rows=k + 1)
    previous, previous_lengths = pad([piece.previous for piece in pieces], rows=k)
    nearest, counts = pad([piece.nearest for piece in pieces])
    beyond = _upload(torch.arange(nearest.shape[1], device="cpu") >= counts[:, None], nearest.device)
    columns, starts, carried, running = (
        torch.tensor([getattr(piece, name) for piece in pieces], device="cpu")
        for name in ("column", "start", "carried", "running")
    )
    return Segments(
        columns=columns,
        starts=starts,
        carried=carried,
        current=current,
        lengths=lengths,
        previous=previous,
        previous_lengths=previous_lengths,
        carried_nearest=nearest[..., 0].masked_fill(beyond, torch.inf),
        running=running,
    )
