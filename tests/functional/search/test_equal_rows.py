"""Equal rows are found, and only equal ones."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from revd.functional.search import equal_rows as module
from revd.functional.search.equal_rows import distinct_rows, equal_rows, row_keys


@settings(derandomize=True, max_examples=30, deadline=None)
@given(
    n=st.integers(1, 40),
    width=st.sampled_from([1, 3, 2 * module.KEY_SIZE + 1]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64, torch.uint8, torch.int64, torch.bool]),
    seed=st.integers(0, 1_000),
)
def test_every_row_is_found_among_the_distinct_ones(n: int, width: int, dtype: torch.dtype, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, 2, (n, 1), generator=generator).expand(n, width).clone().to(dtype)
    values[::3, -1] = 0
    rows, places = distinct_rows([values])
    # Rows that differ only where the key does not look hide repeats from each other.
    if width <= module.KEY_SIZE:
        assert len(rows) == len({tuple(row.tolist()) for row in values})
    assert torch.equal(values[rows][places], values)


def test_rows_of_equal_keys_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    monkeypatch.setattr(module, "row_keys", lambda parts: torch.zeros(len(parts[0])))
    rows, places = distinct_rows([values])
    assert torch.equal(values[rows][places], values)


@pytest.mark.parametrize("rows_per_chunk", [1, 2, 100])
def test_rows_are_compared_chunk_by_chunk(monkeypatch: pytest.MonkeyPatch, rows_per_chunk: int) -> None:
    monkeypatch.setattr(module, "NUMBERS_PER_CHUNK", 2 * rows_per_chunk)
    values, others = torch.arange(10.0).reshape(5, 2), torch.arange(10.0).reshape(5, 2)
    others[3, 1] += 1
    assert equal_rows([values], [others], torch.arange(5)).tolist() == [True, True, True, False, True]
    assert equal_rows([values], [others], torch.tensor([0, 1, 2, 4, 4])).tolist() == [True, True, True, False, True]


def test_all_parts_of_a_row_count() -> None:
    first, second = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([[2], [2], [3]])
    assert equal_rows([first, second], [first, second], torch.zeros(3, dtype=torch.int64)).tolist() == [
        True,
        True,
        False,
    ]
    third = torch.tensor([1.0, 2.0, 1.0])
    assert equal_rows([third, second], [third, second], torch.zeros(3, dtype=torch.int64)).tolist() == [
        True,
        False,
        False,
    ]
    keys = row_keys([first, second])
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_numbers_that_are_not_finite_equal_at_most_themselves(value: float) -> None:
    values = torch.tensor([[value, 0.0], [value, 1.0], [0.0, 1.0]])
    rows, places = distinct_rows([values])
    found: Tensor = values[rows][places]
    assert torch.equal(found.nan_to_num(), values.nan_to_num())
    assert len(rows) == 3


def test_types_that_differ_are_not_compared() -> None:
    values = torch.ones(2, 2)
    assert not equal_rows([values], [values.double()], torch.arange(2)).any()
