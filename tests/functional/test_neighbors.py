from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from revd import episode_distances, neighbor_distances
from revd.functional import visible_distances
from revd.functional.search import torch_search
from tests.support import naive


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def random_walk(n: int, *, step: float = 1e-3, d: int = 128, seed: int = 0) -> Tensor:
    """A random walk on layer-normed embeddings: the near-duplicates of FIELD.md."""
    walk = randn(1, d, seed=seed) + step * randn(n, d, seed=seed + 1).cumsum(dim=0)
    return torch.nn.functional.layer_norm(walk, (d,))


def distant_regions(n: int) -> Tensor:
    """An episode of short stays in regions far from each other, which no common centre serves."""
    corners = 100 * randn(4, 1, 128, seed=5)
    return torch.cat([corner + random_walk(n // 4, seed=7 + i) for i, corner in enumerate(corners)])


def exact(x: Tensor, y: Tensor | None, k: int) -> Tensor:
    """Direct differences in float64."""
    target = x if y is None else y
    distances = (x.double()[:, None] - target.double()[None]).square().sum(dim=-1).sqrt()
    if y is None:
        distances.fill_diagonal_(torch.inf)
    return distances.topk(k, largest=False).values


CASES = {"walk": random_walk(256), "regions": distant_regions(256), "normal": randn(200, 16)}


@pytest.mark.parametrize("case", CASES)
def test_relative_error_among_the_points_themselves(case: str) -> None:
    x = CASES[case]
    found = neighbor_distances(x, k=5)
    assert ((found - exact(x, None, 5)) / exact(x, None, 5)).abs().max() <= 1e-4


@pytest.mark.parametrize("case", CASES)
def test_relative_error_against_other_points(case: str) -> None:
    x, y = CASES[case][::2], CASES[case][1::2]
    found = neighbor_distances(x, y, k=5)
    assert ((found - exact(x, y, 5)) / exact(x, y, 5)).abs().max() <= 1e-4


@settings(derandomize=True, max_examples=40, deadline=None)
@given(n=st.integers(2, 9), m=st.integers(1, 9), d=st.integers(1, 4), seed=st.integers(0, 1000), data=st.data())
def test_equals_naive_loops(n: int, m: int, d: int, seed: int, data: st.DataObject) -> None:
    # Small integers, so that duplicates and ties are common.
    x, y = randn(n, d, seed=seed).mul(2).round(), randn(m, d, seed=seed + 1).mul(2).round()
    k_own, k_other = data.draw(st.integers(1, n - 1)), data.draw(st.integers(1, m))
    own = naive.neighbor_distances(x.double().numpy(), None, k_own)
    other = naive.neighbor_distances(x.double().numpy(), y.double().numpy(), k_other)
    np.testing.assert_allclose(neighbor_distances(x, k=k_own), own, rtol=1e-6)
    np.testing.assert_allclose(neighbor_distances(x, y, k=k_other), other, rtol=1e-6)


def test_own_entry_is_no_neighbour_but_a_duplicate_is() -> None:
    x = torch.tensor([[0.0], [0.0], [3.0], [7.0]])
    assert neighbor_distances(x, k=2).tolist() == [[0, 3], [0, 3], [3, 3], [4, 7]]


def test_nothing_is_skipped_in_another_set() -> None:
    x = torch.tensor([[0.0], [3.0]])
    y = torch.tensor([[0.0], [4.0], [9.0]])
    assert neighbor_distances(x, y, k=2).tolist() == [[0, 4], [1, 3]]
    assert neighbor_distances(x, x, k=1).tolist() == [[0], [0]]


def test_exact_duplicates_are_at_distance_zero() -> None:
    x = 1e3 * random_walk(50)
    doubled = torch.cat([x, x[torch.randperm(50, generator=torch.Generator().manual_seed(0))]])
    assert (neighbor_distances(doubled, k=1) == 0).all()
    assert (neighbor_distances(x, doubled, k=2) == 0).all()


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (1, 2, 2)])
def test_batches_are_searched_one_by_one(batch: tuple[int, ...]) -> None:
    x, y = randn(*batch, 7, 3), randn(*batch, 5, 3, seed=1)
    own, other = neighbor_distances(x, k=2), neighbor_distances(x, y, k=4)
    assert own.shape == (*batch, 7, 2)
    assert other.shape == (*batch, 7, 4)
    for index in np.ndindex(batch):
        np.testing.assert_allclose(own[index], exact(x[index], None, 2), rtol=1e-5)
        np.testing.assert_allclose(other[index], exact(x[index], y[index], 4), rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_every_floating_type_gives_float32(dtype: torch.dtype) -> None:
    x = randn(20, 4).to(dtype)
    found = neighbor_distances(x, k=3)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, exact(x, None, 3), rtol=1e-5)


def test_inputs_are_untouched_and_outputs_carry_no_gradient() -> None:
    x, y = randn(2, 6, 3).requires_grad_(), randn(2, 4, 3, seed=1)
    before_x, before_y = x.detach().clone(), y.clone()
    own, other = episode_distances(x, y, k=2)
    assert torch.equal(x, before_x)
    assert torch.equal(y, before_y)
    assert not own.requires_grad
    assert not other.requires_grad


def test_non_contiguous_points() -> None:
    time_major = randn(6, 3, 4)
    expected = neighbor_distances(time_major.transpose(0, 1).contiguous(), k=2)
    assert torch.equal(neighbor_distances(time_major.transpose(0, 1), k=2), expected)


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 0.0, 1e30])
@pytest.mark.parametrize("own", [True, False])
def test_ragged_batches_search_their_valid_rows_only(own: bool, garbage: float) -> None:
    x_lengths, y_lengths = torch.tensor([[6, 4], [1, 0]]), torch.tensor([[5, 1], [0, 3]])
    x, y = randn(2, 2, 6, 3), randn(2, 2, 5, 3, seed=1)
    for index in np.ndindex(2, 2):
        x[index][int(x_lengths[index]) :] = garbage
        y[index][int(y_lengths[index]) :] = garbage
    if own:
        found = neighbor_distances(x, k=3, x_lengths=x_lengths)
    else:
        found = neighbor_distances(x, y, k=3, x_lengths=x_lengths, y_lengths=y_lengths)
    for index in np.ndindex(2, 2):
        rows = x[index][: int(x_lengths[index])].double().numpy()
        others = None if own else y[index][: int(y_lengths[index])].double().numpy()
        expected = np.full((6, 3), np.inf)
        if len(rows):
            expected[: len(rows)] = naive.neighbor_distances(rows, others, 3)
        np.testing.assert_allclose(found[index], expected, rtol=1e-5)


def test_either_length_may_be_given_alone() -> None:
    x, y = randn(2, 4, 3), randn(2, 5, 3, seed=1)
    full = neighbor_distances(x, y, k=2)
    rows = neighbor_distances(x, y, k=2, x_lengths=torch.tensor([4, 1]))
    assert torch.equal(rows[0], full[0])
    assert torch.equal(rows[1, :1], full[1, :1])
    assert rows[1, 1:].isinf().all()
    columns = neighbor_distances(x, y, k=2, y_lengths=torch.tensor([5, 1]))
    assert torch.equal(columns[0], full[0])
    assert columns[1, :, 1].isinf().all()
    np.testing.assert_allclose(columns[1, :, 0], (x[1] - y[1, 0]).norm(dim=-1), rtol=1e-5)


@pytest.mark.parametrize("tile", [1, 7, 40, 200, 1000])
def test_chunks_change_nothing(tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, lengths = randn(5, 23, 3), randn(5, 11, 3, seed=1), torch.tensor([23, 0, 7, 22, 1])
    visible = torch.arange(23).expand(5, 23) // 2

    def searches() -> list[Tensor]:
        return [
            *episode_distances(x, y, k=4, current_lengths=lengths),
            neighbor_distances(x[0], k=4),
            visible_distances(x, y, k=4, visible=visible),
        ]

    whole = searches()
    monkeypatch.setattr(torch_search, "TILE_ELEMENTS", tile)
    for chunked, expected in zip(searches(), whole, strict=True):
        assert torch.equal(chunked, expected)


class LargestTensor(TorchDispatchMode):
    """Records the most elements that any tensor made inside had."""

    elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return result


@pytest.mark.parametrize(("batch", "n"), [(1, 3000), (3, 1000), (400, 40)])
def test_memory_is_bounded_however_long_the_episode_is(batch: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tile = 50_000
    monkeypatch.setattr(torch_search, "TILE_ELEMENTS", tile)
    monkeypatch.setattr(torch_search, "TILE_ROWS", 1)
    x = randn(batch, n, 2)
    lengths = torch.full((batch,), n)
    with LargestTensor() as largest:
        neighbor_distances(x, k=3, x_lengths=lengths)
    assert largest.elements <= max(tile, 3 * x.numel())


def test_default_tile_keeps_a_long_episode_small() -> None:
    x = randn(9_000, 1)
    with LargestTensor() as largest:
        neighbor_distances(x, k=1)
    assert largest.elements <= max(torch_search.TILE_ELEMENTS, 1.05 * torch_search.TILE_ROWS * 9_000)


def test_episode_distances_are_the_two_searches() -> None:
    current, previous = randn(3, 8, 4), randn(3, 5, 4, seed=1)
    own, other = episode_distances(current, previous, k=3)
    assert torch.equal(own, neighbor_distances(current, k=3))
    assert torch.equal(other, neighbor_distances(current, previous, k=3))


def test_ragged_episode_distances_are_the_two_searches() -> None:
    current, previous = randn(3, 8, 4), randn(3, 5, 4, seed=1)
    n, m = torch.tensor([8, 3, 1]), torch.tensor([5, 0, 2])
    own, other = episode_distances(current, previous, k=3, current_lengths=n, previous_lengths=m)
    assert torch.equal(own, neighbor_distances(current, k=3, x_lengths=n))
    assert torch.equal(other, neighbor_distances(current, previous, k=3, x_lengths=n, y_lengths=m))
    assert other[1].isinf().all()


@settings(derandomize=True, max_examples=30, deadline=None)
@given(n=st.integers(1, 6), m=st.integers(0, 7), k=st.integers(1, 9), seed=st.integers(0, 1000))
def test_visible_distances_equal_naive_loops(n: int, m: int, k: int, seed: int) -> None:
    x, y = randn(2, n, 3, seed=seed), randn(2, m, 3, seed=seed + 1)
    visible = torch.randint(0, m + 1, (2, n), generator=torch.Generator().manual_seed(seed))
    found = visible_distances(x, y, k=k, visible=visible)
    assert found.shape == (2, n, k)
    for b, i in np.ndindex(2, n):
        seen = y[b, : int(visible[b, i])].double().numpy()
        expected = [naive.nu(j, x[b, i].double().numpy(), seen) for j in range(1, k + 1)]
        np.testing.assert_allclose(found[b, i], expected, rtol=1e-5)


def test_visible_distances_without_batch() -> None:
    x = torch.tensor([[0.0], [1.0], [5.0]])
    found = visible_distances(x, x, k=2, visible=torch.tensor([0, 1, 2]))
    assert found.tolist() == [[torch.inf, torch.inf], [1, torch.inf], [4, 5]]


@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 3), (0, 4, 3)])
def test_no_points_have_no_neighbours(shape: tuple[int, ...]) -> None:
    others = torch.zeros(*shape[:-2], 5, 3)
    assert neighbor_distances(torch.zeros(shape), others, k=2).shape == (*shape[:-1], 2)


def test_compiled_code_may_search() -> None:
    x = randn(60, 3)
    compiled = torch.compile(lambda points: 2 * neighbor_distances(points, k=2), backend="eager")
    assert torch.equal(compiled(x), 2 * neighbor_distances(x, k=2))


SEEN = torch.zeros(2, 6, dtype=torch.int64)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: neighbor_distances(x, k=0), "k must be an integer of at least 1, got 0"),
        (lambda x: neighbor_distances(x, k=6), "k = 6 .* only 5 points of x besides each itself"),
        (lambda x: neighbor_distances(x[:, :0], k=1), "only 0 points"),
        (lambda x: neighbor_distances(x, x[:, :4], k=5), "k = 5 .* only 4 points of y"),
        (lambda x: neighbor_distances(x[0, 0], k=1), r"x must have shape \(..., n, d\) .*, got \(3,\)"),
        (lambda x: neighbor_distances(x, x[0], k=1), r"y must share batch dimensions and d with x, .*got \(6, 3\)"),
        (lambda x: neighbor_distances(x, x[..., :2], k=1), "y must share batch dimensions and d"),
        (lambda x: neighbor_distances(x, k=1, y_lengths=torch.tensor([1, 1])), "y_lengths was given without y"),
        (lambda x: neighbor_distances(x, k=1, x_lengths=torch.tensor([1])), r"x_lengths must be integers of shape \(2"),
        (lambda x: neighbor_distances(x, k=1, x_lengths=torch.tensor([1.0, 2.0])), "x_lengths must be integers"),
        (lambda x: neighbor_distances(x, k=1, x_lengths=torch.tensor([1, 7])), r"x_lengths must lie in 0 … 6, got 1"),
        (lambda x: neighbor_distances(x, x, k=1, y_lengths=torch.tensor([-1, 2])), "y_lengths must lie in 0 … 6"),
        (lambda x: neighbor_distances(x, k=1, x_lengths=torch.tensor([True, False])), "x_lengths must be integers"),
        (lambda x: neighbor_distances(x[..., :0], k=1), r"x must have shape .* d of at least 1, got \(2, 6, 0\)"),
        (lambda x: neighbor_distances(x.to(torch.complex64), k=1), "x must be real, got torch.complex64"),
        (lambda x: neighbor_distances(x, k=True), "k must be an integer of at least 1, got True"),
        (lambda x: visible_distances(x, x, k=0, visible=SEEN), "k must be an integer of at least 1"),
        (lambda x: visible_distances(x, x, k=1, visible=SEEN[0]), r"visible must be integers of shape \(2, 6\)"),
        (lambda x: visible_distances(x, x, k=1, visible=SEEN + 0.5), "visible must be integers"),
        (lambda x: visible_distances(x, x, k=1, visible=SEEN + 7), "visible must lie in 0 … 6, got 7 … 7"),
        (lambda x: visible_distances(x, x, k=1, visible=SEEN, own=SEEN - 1), "own must lie in 0 … 5, got -1 … -1"),
        (lambda x: visible_distances(x, x, k=1, visible=SEEN, own=SEEN + 6), "own must lie in 0 … 5, got 6 … 6"),
    ],
)
def test_errors_name_the_argument_and_what_would_be_valid(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(randn(2, 6, 3))
