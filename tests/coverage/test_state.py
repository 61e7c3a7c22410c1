import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from revd.coverage import Axis, Grid
from revd.coverage.counter import VisitCounter
from revd.coverage.lookup import import_cells
from revd.coverage.state import CounterState, read_visits, write_visits
from revd.storage.tensor_file import write_tensors

GRID = Grid((Axis(name="a"), Axis(name="b", low=0, high=8, unit="m", downwards=True)))


def counted(*, steps=2_500):
    counter = VisitCounter(GRID)
    for step in range(500, steps + 1, 500):
        states = np.array([[step // 500, 1], [2, 3]])
        counter.count([counter.batch(states, [], 2)], step)
    return counter


@pytest.fixture
def path(tmp_path):
    return tmp_path / "visits.safetensors"


def test_a_file_gives_back_every_count(path):
    state = counted().state()
    write_visits(path, state)
    read = read_visits(path)
    assert read.values == state.values
    for name, array in state.arrays.items():
        np.testing.assert_array_equal(read.arrays[name], array)
    assert read.visits.plane == GRID.axes
    assert [stage.steps for stage in read.visits.stages] == [1000, 2000, 2500]
    assert read.visits.stages[0].visits.sum() == 4


def test_a_counter_that_has_seen_nothing_is_saved_too(path):
    write_visits(path, VisitCounter(GRID).state())
    assert read_visits(path).visits.stages[-1].visits.sum() == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": -1}, "steps of the saved visits must be an integer of at least 0, got -1"),
        ({"steps": True}, "got True"),
        ({"interval": "1"}, "interval of the saved visits"),
        ({"stages": [[1, 2]]}, "not enough values"),
        ({"stages": []}, "two coordinates and a count of each cell"),
        ({"plane": [{"name": "a"}]}, "these are no saved visits"),
        ({"plane": [{"name": "a", "size": 0}, {"name": "b"}]}, "size of axis 'a'"),
        (
            {"plane": [{"name": "a", "size": 1e308}, {"name": "b"}]},
            "size of an axis of the saved visits must",
        ),
        ({"plane": [{"name": "a", "size": 10**400}, {"name": "b"}]}, "saved visits"),
        ({"plane": [{"name": "a"}, {"name": "b", "low": -1e300, "high": 1e300}]}, "low of an axis"),
        ({"plane": [{"name": "a"}, {"name": "b", "low": 0, "high": 1e12, "size": 1e11}]}, "high of an axis"),
        ({"width": -3}, "width of the saved visits"),
        ({"is_full": 1}, "these are no saved visits"),
    ],
)
def test_values_of_another_file_are_refused(change, message):
    state = counted().state()
    with pytest.raises(ValueError, match=re.escape(message)):
        CounterState.of(state.arrays, state.values | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": np.array([1])}, "must be ascending, with one count of at least 1 for each"),
        ({"map_keys": np.array([3, 3], np.int64), "map_counts": np.array([1, 1], np.int64)}, "must be ascending"),
        ({"map_keys": np.array([3], np.int64), "map_counts": np.array([0], np.int64)}, "at least 1"),
        ({"keys": np.array([1.0])}, "keys of the saved visits must be 1-d int64, got 1-d float64"),
        ({"stage_cells": np.zeros((4, 3), np.int32)}, "two coordinates"),
        ({"stage_visits": np.zeros((2, 2), np.int64)}, "stage_visits of the saved visits must be 1-d int64"),
    ],
)
def test_arrays_of_another_file_are_refused(change, message):
    state = counted().state()
    with pytest.raises(ValueError, match=re.escape(message)):
        CounterState.of(state.arrays | change, state.values)


def test_missing_arrays_are_refused():
    state = counted().state()
    with pytest.raises(ValueError, match="KeyError: 'keys'"):
        CounterState.of({}, state.values)


def test_damaged_and_other_files_are_refused(path):
    write_visits(path, counted().state())
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="damaged"):
        read_visits(path)
    write_tensors(path, {"a": torch.zeros(1)}, {"format": "revd-callback-1"})
    with pytest.raises(ValueError, match="is no file of visits"):
        read_visits(path)


def test_visits_of_another_plane_are_refused():
    with pytest.raises(ValueError, match="the saved visits are of the plane"):
        VisitCounter(Grid((Axis(name="a"), replace(GRID.axes[1], unit="km")))).restore(counted().state())


def rooms(observations, infos):
    return np.zeros(len(observations), int)


def kinds(observations, infos):
    return np.ones(len(observations), int)


def test_visits_of_other_cells_are_refused():
    deeper = Grid((*GRID.axes, Axis(name="c")))
    with pytest.raises(ValueError, match=re.escape("are of 'a by 1, b 0 … 8 by 1', and those")):
        VisitCounter(deeper).restore(counted().state())
    message = f"are of 'cells of {__name__}:rooms', and those here of 'cells of {__name__}:kinds'"
    with pytest.raises(ValueError, match=re.escape(message)):
        VisitCounter(kinds).restore(VisitCounter(rooms).state())
    with pytest.raises(ValueError, match="are of 'cells of"):
        VisitCounter(GRID).restore(VisitCounter(rooms).state())


def test_files_from_before_the_cells_were_described_are_read():
    state = counted().state()
    values = {name: value for name, value in state.values.items() if name != "description"}
    counter = VisitCounter(GRID)
    counter.restore(CounterState.of(state.arrays, values))
    assert counter.total == state.tables["counts"].sum()
    assert counter.state().description == "a by 1, b 0 … 8 by 1"


def test_the_values_are_json():
    values = counted().state().values
    assert json.loads(json.dumps(values)) == values


def test_cells_are_found_by_their_path(tmp_path, monkeypatch):
    (tmp_path / "own_cells.py").write_text(
        "from revd.coverage import Axis, Grid\n"
        "rooms = Grid((Axis(name='x'),))\n"
        "def kinds(observations, infos): return [0] * len(infos)\n"
        "number = 3\n"
    )
    (tmp_path / "broken_cells.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert import_cells("own_cells:rooms").axes == (Axis(name="x"),)
    assert import_cells("own_cells:kinds")(None, [1, 2]) == [0, 0]
    for wrong, message in (
        ("own_cells.kinds", "coverage 'own_cells.kinds' is not MODULE:NAME, as in mypkg.cells:rooms"),
        ("own_cells:room", "did you mean 'rooms'?"),
        ("own_cells:number", "must be a Grid or a function, got 3"),
        ("own_cells:Axis", "must be a Grid or a function"),
        ("broken_cells:kinds", "cannot be imported: ZeroDivisionError: division by zero"),
        ("no_such_module:kinds", "cannot be imported: ModuleNotFoundError"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            import_cells(wrong)
