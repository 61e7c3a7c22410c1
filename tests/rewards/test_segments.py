import numpy as np
import pytest
import torch
from torch import Tensor

from revd import Rollout
from revd.rewards.segment_memory import EpisodeMemory, RolloutMemory
from revd.rewards.segments import Segments, pad
from tests.support.rollouts import Shape, changed, make_rollout


def rollout_of(dones: list[list[int]], lengths: list[int] | None = None) -> tuple[Tensor, Rollout]:
    """A rollout with the given dones (a list for each environment), and embeddings (d = 1) that tell steps apart."""
    ended = np.array(dones, bool).T
    embeddings = (100.0 * torch.arange(ended.shape[1]) + torch.arange(len(ended))[:, None])[..., None]
    return embeddings, changed(make_rollout(0, Shape(*ended.shape)), dones=ended, lengths=lengths)


def states(segments: Segments, index: int) -> list[float]:
    return segments.current[index, : int(segments.lengths[index]), 0].tolist()


def previous(segments: Segments, index: int) -> list[float]:
    return segments.previous[index, : int(segments.previous_lengths[index]), 0].tolist()


def test_pad() -> None:
    padded, lengths = pad([torch.ones(2, 3), torch.ones(0, 3), torch.ones(1, 3)])
    assert padded.shape == (3, 2, 3)
    assert lengths.tolist() == [2, 0, 1]
    assert padded.sum(dim=(1, 2)).tolist() == [6, 0, 3]
    assert pad([torch.ones(2, 3)], rows=5)[0].shape == (1, 5, 3)


def test_rollout_segments_are_columns_and_the_columns_before() -> None:
    memory = RolloutMemory(2, 1, k=2, keep_previous=True)
    embeddings, rollout = rollout_of([[0, 1, 0], [0, 0, 0]], lengths=[3, 2])
    (first,) = memory.segments(embeddings, rollout)
    assert [states(first, i) for i in range(2)] == [[0, 1, 2], [100, 101]]
    assert first.previous.shape == (2, 2, 1)
    assert first.previous_lengths.tolist() == [0, 0]
    memory.end_episodes()
    (second,) = memory.segments(embeddings + 10, rollout)
    assert [previous(second, i) for i in range(2)] == [[0, 1, 2], [100, 101]]


def test_an_environment_without_steps_keeps_its_previous_rollout() -> None:
    memory = RolloutMemory(2, 1, k=1, keep_previous=True)
    for lengths in ([3, 2], [0, 3]):
        embeddings, rollout = rollout_of([[0, 0, 0], [0, 0, 0]], lengths=lengths)
        memory.segments(embeddings + 10 * lengths[1], rollout)
    (segments,) = memory.segments(embeddings, rollout)
    assert [previous(segments, i) for i in range(2)] == [[20, 21, 22], [130, 131, 132]]


@pytest.mark.parametrize("boundary", ["rollout", "episode"])
def test_previous_states_are_kept_only_where_they_are_needed(boundary: str) -> None:
    if boundary == "rollout":
        memory = RolloutMemory(1, 1, k=1, keep_previous=False)
    else:
        memory = EpisodeMemory(1, 1, k=1, keep_previous=False, capacity=10)
    memory.segments(*rollout_of([[0, 0, 1]]))
    memory.end_episodes()
    assert memory.previous.shape == (1, 0, 1)


def test_episodes_continue_across_rollouts() -> None:
    memory = EpisodeMemory(1, 1, k=2, keep_previous=True, capacity=100)
    memory.segments(*rollout_of([[0, 0, 0]]))
    embeddings, rollout = rollout_of([[0, 1, 0]])
    found = {int(s.starts[i]): (s, i) for s in memory.segments(embeddings + 10, rollout) for i in range(len(s.starts))}
    going_on, new = found[0], found[2]
    assert states(*going_on) == [0, 1, 2, 10, 11]
    assert int(going_on[0].carried[going_on[1]]) == 3
    assert previous(*going_on) == []
    assert states(*new) == [12]
    assert int(new[0].carried[new[1]]) == 0
    assert previous(*new) == [0, 1, 2, 10, 11]
    assert memory.running[0, :, 0].tolist() == [12]


def test_steps_beyond_the_lengths_end_no_episode() -> None:
    memory = EpisodeMemory(2, 1, k=1, keep_previous=True, capacity=100)
    batches = memory.segments(*rollout_of([[0, 0, 1, 1], [1, 1, 1, 1]], lengths=[2, 0]))
    assert [states(batch, i) for batch in batches for i in range(len(batch.starts))] == [[0, 1]]
    assert memory.running_lengths.tolist() == [2, 0]
    assert memory.previous_lengths.tolist() == [0, 0]


def test_no_step_at_all_gives_no_segment() -> None:
    memory = EpisodeMemory(1, 1, k=1, keep_previous=True, capacity=100)
    assert memory.segments(*rollout_of([[0, 0]], lengths=[0])) == []


def test_padding_wastes_less_than_half() -> None:
    memory = EpisodeMemory(1, 1, k=1, keep_previous=False, capacity=1000)
    dones = np.zeros(300, int)
    dones[[0, 2, 5, 9, 20, 40, 41, 100]] = 1
    batches = memory.segments(*rollout_of([dones.tolist()]))
    assert sum(len(batch.starts) for batch in batches) == 9
    for batch in batches:
        assert 2 * int(batch.lengths.min()) > batch.current.shape[1] or batch.current.shape[1] == 2


def test_put_and_take_meet_at_the_new_states() -> None:
    memory = EpisodeMemory(2, 1, k=3, keep_previous=True, capacity=100)
    memory.segments(*rollout_of([[0, 0], [0, 1]]))
    embeddings, rollout = rollout_of([[0, 1, 0, 0], [0, 0, 0, 0]], lengths=[4, 3])
    written = torch.full((4, 2), -1.0)
    for batch in memory.segments(embeddings, rollout):
        taken = batch.take(embeddings)[..., 0]
        assert torch.equal(taken[batch.is_new], batch.new_states[..., 0][batch.is_new])
        batch.put(written, taken)
    assert torch.equal(written, torch.where(rollout.valid, embeddings[..., 0], -1.0))


@pytest.mark.parametrize("kind", ["rollout", "episode"])
def test_state_dicts_of_any_number_of_states_load(kind: str) -> None:
    def make(n_envs: int = 1, size: int = 1) -> RolloutMemory | EpisodeMemory:
        if kind == "rollout":
            return RolloutMemory(n_envs, size, k=1, keep_previous=True)
        return EpisodeMemory(n_envs, size, k=1, keep_previous=True, capacity=100)

    memory, fresh = make(), make()
    memory.segments(*rollout_of([[0, 0, 1, 0, 0]]))
    fresh.load_state_dict(memory.state_dict())
    for name, saved in memory.state_dict().items():
        assert torch.equal(fresh.state_dict()[name], saved)
    # And back to nothing, as a run that starts anew would.
    memory.load_state_dict(make().state_dict())
    assert memory.previous.shape == (1, 0, 1)
    for other in (make(n_envs=2), make(size=3)):
        with pytest.raises(RuntimeError, match="size mismatch"):
            other.load_state_dict(fresh.state_dict())
    with pytest.raises(RuntimeError, match="Missing key"):
        fresh.load_state_dict({})
