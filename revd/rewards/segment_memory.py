"""Cutting rollouts into segments (`segments.py`), and the memory of states for later ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from revd.rewards.segments import Segments, pad, to_device

if TYPE_CHECKING:
    from revd.rollout import Rollout


class SegmentMemory(nn.Module, ABC):
    """Cuts each rollout into segments and keeps states for later ones, in buffers that change size while training.

    Args:
        n_envs: Environments.
        embedding_size: d.
        k: Segments are padded to at least k + 1 rows, so that a search for k neighbours is always possible.
        keep_previous: Whether to keep the states of the previous segment, for comparison.
    """

    def __init__(self, n_envs: int, embedding_size: int, *, k: int, keep_previous: bool) -> None:
        super().__init__()
        self.k = k
        self.keep_previous = keep_previous
        for name in self.sets:
            self.register_buffer(name, torch.zeros(n_envs, 0, 1 if name == "nearest" else embedding_size))
            self.register_buffer(f"{name}_lengths", torch.zeros(n_envs, dtype=torch.int64))

    #: Names of the sets kept for each environment: states, (n, d), or "nearest", numbers about them, (n, 1).
    sets: tuple[str, ...] = ("previous",)

    @abstractmethod
    def segments(self, embeddings: Tensor, rollout: Rollout) -> list[Segments]:
        """Cut the rollout, whose embeddings are (n_steps, n_envs, d), and store its states."""

    def keep_nearest(self, segments: Segments, carried: Tensor, new: Tensor) -> None:
        """Store mu_1 of the states of running segments, (b, c) and (b, p), if these are kept for the next rollout."""

    def end_episodes(self) -> None:
        """End the running segments, because all environments were reset from outside."""

    def _read(self, name: str) -> list[Tensor]:
        """Read one set: a tensor for each environment."""
        states: Tensor = getattr(self, name)
        lengths: Tensor = getattr(self, f"{name}_lengths")
        return [column[:length] for column, length in zip(states, lengths.tolist(), strict=True)]

    def _store(self, name: str, states: Sequence[Tensor]) -> None:
        padded, lengths = pad(states)
        setattr(self, name, padded)
        setattr(self, f"{name}_lengths", to_device(lengths, padded.device))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in self.sets:
            saved = state_dict.get(prefix + name)
            buffer: Tensor = getattr(self, name)
            # Only the number of states may differ; the number of environments and d must agree.
            if saved is not None and (saved.shape[0], saved.shape[2:]) == (buffer.shape[0], buffer.shape[2:]):
                setattr(self, name, buffer.new_zeros(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


class RolloutMemory(SegmentMemory):
    """A segment is one environment's rollout, the previous one its last rollout with at least k states."""

    def segments(self, embeddings: Tensor, rollout: Rollout) -> list[Segments]:
        """Make one batch with a segment for each environment."""
        n_steps, n_envs, _ = embeddings.shape
        current = embeddings.transpose(0, 1).contiguous()
        lengths = torch.full((n_envs,), n_steps, device="cpu") if rollout.lengths is None else rollout.lengths
        stored = self._read("previous")
        previous, previous_lengths = pad(stored, rows=self.k)
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
            kept = zip(current, stored, lengths.tolist(), strict=True)
            self._store("previous", [new[:length] if length >= self.k else old for new, old, length in kept])
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
        """Make batches, of similar length, of the episodes that have a step in the rollout."""
        running, previous, nearest = (self._read(name) for name in ("running", "previous", "nearest"))
        pieces: list[_Segment] = []
        for column, (start, stop, ended) in _episodes(rollout):
            states = torch.cat([running[column], embeddings[start:stop, column]])
            pieces.append(
                _Segment(column, start, len(running[column]), states, previous[column], nearest[column], not ended)
            )
            running[column] = states[:0] if ended else states[-self.capacity :]
            if ended:
                nearest[column] = nearest[column][:0]
                previous[column] = self._next_previous(states, previous[column])
        for name, kept in (("running", running), ("previous", previous), ("nearest", nearest)):
            self._store(name, kept)
        return [_pad_segments(group, self.k) for group in _similar_lengths(pieces)]

    def keep_nearest(self, segments: Segments, carried: Tensor, new: Tensor) -> None:
        """Store mu_1 beside the running episodes, so that the next rollout need not search among carried states.

        Neighbours count even if the capacity has dropped them since.
        """
        nearest = self._read("nearest")
        for index in segments.running.nonzero()[:, 0].tolist():
            before, length = int(segments.carried[index]), int(segments.lengths[index])
            states = torch.cat([carried[index, :before], new[index, : length - before]])
            nearest[int(segments.columns[index])] = states[-self.capacity :, None]
        self._store("nearest", nearest)

    def end_episodes(self) -> None:
        """Count the running episodes as completed."""
        running, previous = self._read("running"), self._read("previous")
        self._store("previous", [self._next_previous(*pair) for pair in zip(running, previous, strict=True)])
        self._store("running", [states[:0] for states in running])
        self._store("nearest", [values[:0] for values in self._read("nearest")])

    def _next_previous(self, ended: Tensor, previous: Tensor) -> Tensor:
        """The states that the next episode is compared with, after this one `ended`."""
        long_enough = self.keep_previous and len(ended) >= self.k
        return ended[-self.capacity :] if long_enough else previous


class _Segment(NamedTuple):
    """One segment before padding."""

    column: int
    start: int
    carried: int
    states: Tensor
    previous: Tensor
    nearest: Tensor
    running: bool


def _episodes(rollout: Rollout) -> list[tuple[int, tuple[int, int, bool]]]:
    """(column, (start, stop, ended)) of the part of every episode in the rollout."""
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


def _similar_lengths(pieces: list[_Segment]) -> list[list[_Segment]]:
    """Group by length within a factor of two, which limits the padding."""
    groups: dict[int, list[_Segment]] = defaultdict(list)
    for piece in pieces:
        groups[max(len(piece.states), len(piece.previous)).bit_length()].append(piece)
    return list(groups.values())


def _pad_segments(pieces: list[_Segment], k: int) -> Segments:
    current, lengths = pad([piece.states for piece in pieces], rows=k + 1)
    previous, previous_lengths = pad([piece.previous for piece in pieces], rows=k)
    nearest, counts = pad([piece.nearest for piece in pieces])
    beyond = to_device(torch.arange(nearest.shape[1], device="cpu") >= counts[:, None], nearest.device)
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
