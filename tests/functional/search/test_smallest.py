"""The few smallest of each row, against a sort."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from revd.functional.search.reused_buffers import ReusedBuffers
from revd.functional.search.smallest import select_smallest, sorted_rows


@settings(derandomize=True, max_examples=100, deadline=None)
@given(
    groups=st.integers(1, 60),
    size=st.integers(1, 9),
    count=st.integers(1, 12),
    ties=st.booleans(),
    nothing=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 10_000),
)
def test_the_smallest_are_found_and_nothing_outside_is_smaller(groups, size, count, ties, nothing, seed):
    count = min(count, groups)
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(2, 5, groups * size, generator=generator)
    if ties:
        values = (4 * values).round() / 4
    values[torch.rand(values.shape, generator=generator) < nothing] = torch.inf
    values[0, 0, -count:] = 0.0
    offset = torch.rand(2, 5, generator=generator)
    before = values.clone()
    chosen = select_smallest(values - offset[..., None], offset, count, groups, ReusedBuffers(values.device))
    kept = before.gather(-1, chosen.columns)
    assert torch.equal(chosen.found, kept.isfinite())
    others = before.scatter(-1, chosen.columns, torch.inf).amin(dim=-1)
    assert (chosen.outside <= others + 1e-6).all(), "something that was left out is smaller than promised"
    # Columns take the place of a value's last bits, so that values closer than those may change places.
    expected = before.sort(dim=-1).values[..., :count]
    torch.testing.assert_close(kept.sort(dim=-1).values, expected, rtol=1e-3, atol=1e-6)
    assert torch.where(others.isinf(), chosen.outside.isinf(), chosen.outside > 0.99 * others - 1e-3).all()


def test_no_column_is_chosen_twice():
    values = torch.zeros(1, 3, 64)
    columns = select_smallest(values, torch.zeros(1, 3), 8, 16, ReusedBuffers(values.device)).columns
    assert all(len(set(row)) == 8 for row in columns[0].tolist())


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_other_devices_give_the_same_shapes(device):
    buffers = ReusedBuffers(torch.device(device))
    chosen = select_smallest(torch.rand(2, 5, 64, device=device), torch.zeros(2, 5, device=device), 4, 16, buffers)
    assert chosen.columns.shape == chosen.found.shape == (2, 5, 4)
    assert chosen.outside.shape == (2, 5)
    assert sorted_rows(torch.rand(2, 5, 3, device=device)).shape == (2, 5, 3)


def test_rows_are_sorted():
    values = torch.rand(3, 4, 9, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sorted_rows(values), values.sort(dim=-1).values)
