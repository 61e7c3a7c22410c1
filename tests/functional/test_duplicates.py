import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from revd.functional import Distinct, distinct_states, share_among_copies
from revd.functional import duplicates as module


def naive(states: list[list[float]]) -> dict[str, list[int]]:
    """The same for one batch, by comparing every row with every other; Python's 0.0 equals -0.0."""
    last = [i for i in range(len(states)) if states[i] not in states[i + 1 :]]
    return {
        "rows": last,
        "numbers": [next(j for j, row in enumerate(last) if states[row] == state) for state in states],
        "copies": [states.count(state) for state in states],
    }


def assert_equals_naive(found: Distinct, states: Tensor, lengths: list[int]) -> None:
    for b, length in enumerate(lengths):
        expected = naive(states[b, :length].tolist())
        count = int(found.counts[b])
        assert found.rows[b, :count].tolist() == expected["rows"]
        assert found.numbers[b, :length].tolist() == expected["numbers"]
        assert found.copies[b, :length].tolist() == expected["copies"]
        assert not found.rows[b, count:].any()
        assert not found.numbers[b, length:].any()
        assert (found.copies[b, length:] == 1).all()


def states_of(seed: int, b: int, n: int, d: int, values: int) -> Tensor:
    """Few different numbers, so that many rows are copies; 0.0 and -0.0 among them."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, values, (b, n, d)).astype(np.float32)
    return torch.from_numpy(np.where(rng.random((b, n, d)) < 0.5, numbers, numbers * np.float32(-0.0)))


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    data=st.data(),
    b=st.integers(1, 4),
    n=st.integers(1, 20),
    d=st.integers(1, 5),
    values=st.integers(1, 4),
    seed=st.integers(0, 10_000),
)
def test_equals_a_comparison_of_all_rows(data: st.DataObject, b: int, n: int, d: int, values: int, seed: int) -> None:
    lengths = data.draw(st.lists(st.integers(0, n), min_size=b, max_size=b))
    states = states_of(seed, b, n, d, values)
    other = states_of(seed + 1, 2, 3, d, values)
    found, beside = distinct_states((states, torch.tensor(lengths)), (other, torch.tensor([3, 1])))
    assert_equals_naive(found, states, lengths)
    assert_equals_naive(beside, other, [3, 1])


@pytest.mark.parametrize("hits", [0, 1, 3])
def test_rows_that_share_a_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch, hits: int) -> None:
    """The first few hashes give all rows the same number."""
    factors, seeds = module._factors, []

    def weak(count: int, seed: int) -> Tensor:
        seeds.append(seed)
        return factors(count, seed) * (seed >= hits)

    monkeypatch.setattr(module, "_factors", weak)
    states = states_of(0, 3, 20, 2, 3)
    (found,) = distinct_states((states, torch.tensor([20, 7, 0])))
    assert_equals_naive(found, states, [20, 7, 0])
    assert seeds == list(range(hits + 1))


def test_padding_is_no_copy() -> None:
    (found,) = distinct_states((torch.zeros(2, 4, 3), torch.tensor([2, 0])))
    assert found.counts.tolist() == [1, 0]
    assert found.copies.tolist() == [[2, 2, 1, 1], [1, 1, 1, 1]]


@pytest.mark.parametrize("d", [1, 128])
@pytest.mark.parametrize("change", [1e-45, -1e-45, 2.0**-23])
def test_the_smallest_difference_counts(d: int, change: float) -> None:
    states = torch.zeros(1, 3, d)
    states[:, :, -1] = torch.tensor([0.0, change, 0.0]) if abs(change) < 1e-40 else torch.tensor([1.0, 1 + change, 1.0])
    (found,) = distinct_states((states, torch.tensor([3])))
    assert found.numbers.tolist() == [[1, 0, 1]]


def test_any_layout_of_memory() -> None:
    states = states_of(0, 4, 9, 6, 2)
    (expected,) = distinct_states((states, torch.full((4,), 9)))
    (found,) = distinct_states((states.permute(2, 0, 1).contiguous().permute(1, 2, 0), torch.full((4,), 9)))
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_a_share_is_the_pay_over_the_root_of_the_copies() -> None:
    pay = torch.tensor([6.0, 6.0, 0.1, 3.0])
    shared = share_among_copies(pay, torch.tensor([4.0, 4.0, 1.0, 2.0]))
    assert shared[:3].tolist() == [3, 3, float(pay[2])]
    assert float(shared[3]) == pytest.approx(3 / math.sqrt(2))
    assert share_among_copies(pay, None) is pay


@pytest.mark.parametrize("kind", ["all the same", "none the same"])
def test_many_rows(kind: str) -> None:
    n = 3_000
    states = torch.zeros(1, n, 2) if kind == "all the same" else torch.arange(2.0 * n).reshape(1, n, 2)
    (found,) = distinct_states((states, torch.tensor([n])))
    if kind == "all the same":
        assert found.counts.tolist() == [1]
        assert found.rows[0, 0] == n - 1
        assert (found.copies == n).all()
    else:
        assert found.counts.tolist() == [n]
        assert torch.equal(found.rows[0], torch.arange(n))
        assert torch.equal(found.numbers, found.rows)
