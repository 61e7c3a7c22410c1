import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from revd import Rollout
from revd.rewards.visits import EpisodeVisits, VisitTable, state_keys
from tests.support.rollouts import BOX


def add(table: VisitTable, *keys: int) -> list[int]:
    numbers = torch.tensor(keys)
    return table.add(numbers, -numbers).tolist()


@settings(derandomize=True, max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(-3, 6), min_size=1, max_size=8), min_size=1, max_size=6))
def test_counts_in_order_of_time(calls: list[list[int]]) -> None:
    table, seen = VisitTable(100), dict.fromkeys(range(-3, 7), 0)
    for keys in calls:
        expected = []
        for key in keys:
            seen[key] += 1
            expected.append(seen[key])
        assert add(table, *keys) == expected
        table.settle()
        known = sorted(key for key, count in seen.items() if count > 0)
        assert table.keys.tolist() == known
        assert table.visits.tolist() == [seen[key] for key in known]
        assert table.groups.tolist() == [-key for key in known]


def test_what_was_visited_longest_ago_is_forgotten() -> None:
    table = VisitTable(2)
    assert add(table, 5, 6, 5, 7) == [1, 1, 2, 1]
    assert table.keys.tolist() == [5, 7]
    assert add(table, 5, 8, 5) == [3, 1, 4]
    assert table.keys.tolist() == [5, 8]
    assert add(table, 7, 5) == [1, 5]


def test_a_table_is_restored_into_one_of_another_size() -> None:
    table, other = VisitTable(10), VisitTable(10)
    add(table, 3, 4, 3)
    add(other, 9)
    other.load_state_dict(copy.deepcopy(table.state_dict()))
    assert add(table, 3, 9) == add(other, 3, 9) == [3, 1]
    assert other.keys.tolist() == [3, 4, 9]


def test_new_rows_of_a_large_table_wait() -> None:
    """They count as the others do, are saved, and reach the large table once they are an eighth of it."""
    table, seen = VisitTable(10_000), dict.fromkeys(range(400), 0)
    copies = []
    for start in range(0, 320, 4):
        keys = [start, start + 1, start + 2, start + 3, start // 2]
        before = table.keys
        expected = []
        for key in keys:
            seen[key] += 1
            expected.append(seen[key])
        assert add(table, *keys) == expected
        copies.append(table.keys is not before)
    assert len(table) == 320 > len(table.keys)
    assert sum(copies) < len(copies) // 2
    restored = VisitTable(10_000)
    add(restored, 5_000)
    restored.load_state_dict(copy.deepcopy(table.state_dict()))
    assert len(restored.keys) == len(restored) == 320
    assert add(restored, 318, 319, 5_000) == add(table, 318, 319, 5_000) == [2, 2, 1]


def test_a_table_holds_at_most_an_eighth_more_than_its_capacity() -> None:
    table = VisitTable(16)
    for key in range(50):
        add(table, key)
        assert len(table) <= 18
    assert len(table) >= 16
    assert add(table, 49, 48, 0) == [2, 2, 1]


def rollout_of(dones: list[list[int]], lengths: list[int] | None = None) -> Rollout:
    shape = np.shape(dones)
    return Rollout(observations=np.zeros((*shape, 3)), actions=np.zeros(shape), dones=dones, lengths=lengths)


def test_visits_of_an_episode_do_not_end_with_the_rollout() -> None:
    visits = EpisodeVisits(2, 100)
    keys = torch.ones(4, 1, dtype=torch.int64)
    assert visits.add(keys, rollout_of([[0, 0], [0, 1]])).tolist() == [[1], [1], [2], [2]]
    assert visits.add(keys, rollout_of([[1, 0], [0, 0]])).tolist() == [[3], [1], [1], [2]]
    visits.end_episodes()
    assert visits.add(keys, rollout_of([[0, 0], [0, 0]])).tolist() == [[1], [1], [2], [2]]


def test_padded_steps_end_no_episode() -> None:
    visits = EpisodeVisits(2, 100)
    assert visits.add(torch.ones(3, 1, dtype=torch.int64), rollout_of([[0, 0], [1, 0]], [1, 2])).tolist() == [
        [1],
        [1],
        [2],
    ]
    assert visits.add(torch.ones(2, 1, dtype=torch.int64), rollout_of([[0, 0]])).tolist() == [[2], [3]]


def test_ended_episodes_take_no_memory() -> None:
    visits = EpisodeVisits(2, 100)
    visits.add(torch.arange(6)[:, None], rollout_of([[0, 0], [1, 0], [0, 1]]))
    assert visits.table.groups.tolist() == [2]
    visits.end_episodes()
    assert len(visits.table.keys) == 0


SPACE = spaces.Dict({"a": BOX, "b": spaces.Dict({"c": spaces.Discrete(3), "d": spaces.MultiBinary(2)})})


def observations(**changes: float) -> dict[str, torch.Tensor | dict[str, torch.Tensor]]:
    values = {"a": torch.zeros(1, 3), "c": torch.zeros(1, dtype=torch.int64), "d": torch.zeros(1, 2)}
    for name, value in changes.items():
        values[name].view(-1)[-1] = value
    return {"b": {"d": values["d"], "c": values["c"]}, "a": values["a"]}


@pytest.mark.parametrize("changes", [{"a": 1.0}, {"c": 1}, {"d": 1}, {"c": 1, "d": 1}])
def test_each_part_of_an_observation_matters(changes: dict[str, float]) -> None:
    assert state_keys(SPACE, observations()) == state_keys(SPACE, observations())  # type: ignore[arg-type]
    assert state_keys(SPACE, observations()) != state_keys(SPACE, observations(**changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.Box(0, 9, (), np.uint8), BOX, spaces.MultiBinary(3)])
def test_the_type_in_which_an_observation_arrives_does_not_matter(space: spaces.Space) -> None:
    values = torch.ones(2, *space.shape)
    found = [state_keys(space, values.to(dtype)) for dtype in (torch.float64, torch.float32, torch.int32)]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
