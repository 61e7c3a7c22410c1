import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from revd.coverage import Axis, Grid
from revd.coverage.counter import VisitCounter
from revd.coverage.keys import as_cells, cell_keys, key_pairs, pair_keys
from revd.coverage.stages import FIRST_INTERVAL, MAX_STAGES
from revd.coverage.table import VisitTable
from tests.coverage.naive import naive_cell, naive_counts

small = st.integers(-3, 3)
AXES = (Axis(name="a"), Axis(name="b"), Axis(name="c"))


@given(st.lists(st.lists(small, min_size=1, max_size=30), min_size=1, max_size=6))
def test_a_table_counts_as_a_loop_does(batches):
    table = VisitTable(100)
    for batch in batches:
        assert table.add(np.array(batch)) == len(set(batch))
    counts = naive_counts([key for batch in batches for key in batch])
    assert dict(zip(table.keys.tolist(), table.counts.tolist(), strict=True)) == counts
    assert sorted(counts) == table.keys.tolist()
    assert not table.is_full


def test_a_full_table_counts_only_what_it_knows():
    table = VisitTable(3)
    table.add(np.array([5, 1]))
    assert table.add(np.array([9, 0, 1, 7])) == 4
    assert table.is_full
    assert dict(zip(table.keys.tolist(), table.counts.tolist(), strict=True)) == {0: 1, 1: 2, 5: 1}
    table.add(np.array([5, 9]))
    assert table.counts.tolist() == [1, 2, 2]


pairs = st.lists(st.tuples(*[st.integers(-(2**31), 2**31 - 1)] * 2), min_size=1, max_size=20)


@given(pairs)
def test_pairs_can_be_read_back_from_their_keys(cells):
    assert key_pairs(pair_keys(np.array(cells))).tolist() == [list(cell) for cell in cells]


@given(st.lists(st.tuples(small, small, small, small), min_size=1, max_size=60))
def test_rows_have_one_key_if_and_only_if_they_are_equal(rows):
    keys = cell_keys(np.array(rows))
    assert len(set(keys.tolist())) == len(set(rows))
    assert cell_keys(np.array(rows[::-1])).tolist() == keys.tolist()[::-1]


def test_keys_are_the_same_in_every_process():
    """Counts are saved with them."""
    assert cell_keys(np.array([[1, 2, 3], [3, 2, 1]])).tolist() == [-3426316478316322125, -3014456889458036892]
    texts = cell_keys(np.array(["kitchen", "hall", "kitchen"]))
    assert texts.tolist() == [-1784721904243062096, -7495406691497114034, -1784721904243062096]


def test_a_function_may_return_integers_rows_and_texts():
    assert cell_keys(as_cells([4, 4, 9], 3)).tolist() == [4, 4, 9]
    assert len(set(cell_keys(as_cells([(1, 2), (2, 1), (1, 2)], 3)).tolist())) == 2
    assert len(set(cell_keys(as_cells(["hall", "cellar", "hall"], 3)).tolist())) == 2
    assert cell_keys(as_cells(np.array([True, False]), 2)).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        ([1, 2], ValueError, "one cell for each of 3 states, got shape (2,)"),
        (7, ValueError, "one cell for each of 3 states, got shape ()"),
        ([[], [], []], ValueError, "one cell for each of 3 states, got shape (3, 0)"),
        ([0.5, 1.0, 2.0], TypeError, "got float64 of shape (3,). Round real numbers first, or use a Grid"),
        ([["a"], ["b"], ["c"]], TypeError, "or texts, (n,)"),
        ([None, 1, 2], TypeError, "got object"),
    ],
)
def test_other_cells_are_refused(returned, error, message):
    with pytest.raises(error, match=re.escape(message)):
        as_cells(returned, 3)


def test_pairs_that_are_too_large_are_refused():
    with pytest.raises(ValueError, match="must lie within -2\\^31 … 2\\^31 - 1, got 0 … 2147483648"):
        pair_keys(np.array([[0, 2**31]]))


def count(counter, *batches, steps=None):
    """Count batches of states one after the other."""
    for index, states in enumerate(batches):
        states = np.asarray(states, float)
        counter.count([counter.batch(states, [{}] * len(states), len(states))], (steps or range(99))[index])


states = st.lists(st.tuples(small, small, small), min_size=1, max_size=40)


@given(states, states)
def test_a_counter_counts_cells_and_the_plane_as_a_loop_does(first, second):
    counter = VisitCounter(Grid(AXES))
    count(counter, first, second, steps=(10, 20))
    cells = [naive_cell(AXES, state) for state in [*first, *second]]
    assert counter.distinct == len(set(cells))
    assert counter.total == len(cells)
    assert counter.last_distinct == len({naive_cell(AXES, state) for state in second})
    (stage,) = counter.state().visits.stages
    expected = naive_counts([cell[:2] for cell in cells])
    assert (stage.steps, stage.distinct) == (20, len(set(cells)))
    assert {(x, y): n for (x, y), n in zip(stage.cells.tolist(), stage.visits.tolist(), strict=True)} == expected


def test_the_share_is_known_where_the_grid_has_ends():
    counter = VisitCounter(Grid((Axis(name="a", low=0, high=4), Axis(name="b", low=0, high=2))))
    count(counter, [(0, 0), (0, 0.5), (3, 1)])
    assert (counter.distinct, counter.share) == (2, 0.25)
    assert VisitCounter(Grid(AXES)).share is None
    assert VisitCounter(lambda observations, infos: [0]).share is None


def test_a_function_has_a_plane_if_its_cells_are_pairs():
    for width, has_plane in ((1, False), (2, True), (3, False)):
        counter = VisitCounter(lambda observations, infos, width=width: observations[:, :width].astype(int))
        count(counter, [(1, 2, 3), (1, 2, 4)])
        assert counter.distinct == (2 if width == 3 else 1)
        assert (counter.state().visits is not None) == has_plane


def test_a_function_must_return_one_form_of_cells():
    answers = iter(([(1, 2)], ["hall"]))
    counter = VisitCounter(lambda observations, infos: next(answers))
    with pytest.raises(ValueError, match="returned 2 integers a cell before, and now texts"):
        count(counter, [[0]], [[0]])


def test_full_tables_are_told(monkeypatch):
    monkeypatch.setattr("revd.coverage.counter.CELL_LIMIT", 4)
    monkeypatch.setattr("revd.coverage.counter.PLANE_LIMIT", 2)
    counter = VisitCounter(Grid(AXES))
    count(counter, [(0, 0, 0), (0, 1, 0)])
    assert counter.full is None
    count(counter, [(0, 2, 0)])
    assert counter.full == "more than 2 cells of the plane were visited: further ones are in no heat map"
    count(counter, [(0, 3, 0), (0, 4, 0)])
    assert counter.full == "more than 4 distinct cells were visited: further ones are not counted"


def test_stages_thin_out_as_a_training_goes_on():
    """A training that ends after n steps has stages at equal distances, whatever it wanted at first."""
    counter = VisitCounter(Grid(AXES))
    for steps in range(700, 100_001, 700):
        count(counter, [(steps % 11, 0, 0)], steps=(steps,))
    stages = [stage.steps for stage in counter.state().visits.stages]
    assert MAX_STAGES // 2 <= len(stages) <= MAX_STAGES
    assert stages[-1] == 99_400, "the newest visits"
    interval = 8 * FIRST_INTERVAL
    first = [next(steps for steps in range(700, 10**6, 700) if steps // interval == k) for k in range(1, 13)]
    assert stages[:-1] == first
    counts = [int(stage.visits.sum()) for stage in counter.state().visits.stages]
    assert counts == [steps // 700 for steps in stages], "visits since the start"


def test_a_restored_counter_continues_as_if_nothing_had_happened():
    rng = np.random.default_rng(0)
    batches = [rng.integers(-4, 4, (50, 3)) for _ in range(28)]
    steps = range(900, 10**6, 900)
    whole = VisitCounter(Grid(AXES))
    count(whole, *batches, steps=steps)
    first, second = VisitCounter(Grid(AXES)), VisitCounter(Grid(AXES))
    count(first, *batches[:25], steps=steps)
    second.restore(first.state())
    count(second, *batches[25:], steps=steps[25:])
    assert second.state().values == whole.state().values
    for name, array in whole.state().arrays.items():
        np.testing.assert_array_equal(second.state().arrays[name], array)


def test_a_state_is_a_copy():
    counter = VisitCounter(Grid(AXES))
    count(counter, [(0, 0, 0)])
    state = counter.state()
    count(counter, [(0, 0, 0), (1, 1, 1)])
    assert state.tables["counts"].tolist() == state.tables["map_counts"].tolist() == [1]


def test_nothing_is_computed_with_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cell_keys(np.array([[2**62, -(2**62), 7]]))
