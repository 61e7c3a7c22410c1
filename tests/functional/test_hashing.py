from collections.abc import Callable

import pytest
import torch

from revd.functional import fingerprints
from revd.functional.hashing import combine, scramble


def test_equal_elements_have_equal_numbers_and_others_do_not() -> None:
    rows = torch.randint(0, 3, (2_000, 5), generator=torch.Generator().manual_seed(0))
    _, expected = rows.unique(dim=0, return_inverse=True)
    _, found = fingerprints(rows).unique(return_inverse=True)
    pairs = torch.stack([expected, found], dim=1).unique(dim=0)
    assert len(pairs) == expected.max() + 1 == found.max() + 1


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int16, torch.float32])
@pytest.mark.parametrize("shape", [(), (1,), (3, 3), (9,)])
def test_each_entry_of_any_type_and_shape_matters(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    zeros = torch.zeros(shape, dtype=dtype).flatten()
    changed = [zeros.clone().index_fill_(0, torch.tensor([entry]), 1) for entry in range(len(zeros))]
    rows = torch.stack([zeros, *changed]).reshape(-1, *shape)
    found = fingerprints(rows)
    assert found.dtype == torch.int64
    assert len(found.unique()) == len(rows)


def test_negative_zero_is_zero() -> None:
    positive, negative = fingerprints(torch.tensor([0.0, -0.0]))
    assert positive == negative


def test_order_of_entries_matters() -> None:
    one, other = fingerprints(torch.arange(32).reshape(2, 16).flip(1)), fingerprints(torch.arange(32).reshape(2, 16))
    assert not (one == other).any()


def test_the_rest_of_the_batch_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.rand(50, 7, generator=torch.Generator().manual_seed(0))
    whole = fingerprints(rows)
    assert torch.equal(fingerprints(rows[13:])[:4], whole[13:17])
    monkeypatch.setattr("revd.functional.hashing._WORDS_PER_CHUNK", 8)
    assert torch.equal(fingerprints(rows), whole)


def test_numbers_do_not_change_between_versions() -> None:
    """They are saved with a reward's state. These are the first outputs of SplitMix64 with seed 0."""
    step = -0x61C8864680B583EB
    first, second = scramble(torch.tensor([1, 2]) * step).tolist()
    assert (first % 2**64, second % 2**64) == (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4)
    assert fingerprints(torch.tensor([7])).tolist() == [scramble(scramble(torch.tensor(7 + step))).item()]


@pytest.mark.parametrize("function", [combine, lambda one, other: combine(other, one)])
def test_pairs_are_told_apart(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    numbers = torch.arange(-20, 20)
    pairs = function(numbers[:, None], numbers[None, :])
    assert len(pairs.unique()) == 40 * 40
