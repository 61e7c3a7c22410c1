import math
import re

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from hypothesis import given
from hypothesis import strategies as st

from revd.coverage import Axis, Grid
from revd.coverage.defaults import default_grid, tasks_with_defaults
from tests.coverage.naive import naive_cell

POSITION = Axis(name="position", size=0.25, low=-1.0, high=1.0, unit="m")
numbers = st.floats(-1e6, 1e6, width=32)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_cells_equal_those_of_a_loop(states):
    axes = (POSITION, Axis(name="free", size=0.5))
    cells = Grid(axes).cells(np.array(states, np.float32), [])
    assert [tuple(cell) for cell in cells.tolist()] == [naive_cell(axes, state) for state in states]


def test_intervals_contain_their_lower_edge():
    values = np.array([[-1.5], [-1.0], [-0.75], [0.99], [1.0], [7.0], [np.inf]])
    assert Grid((POSITION,)).cells(values, [])[:, 0].tolist() == [0, 0, 1, 7, 7, 7, 7]


def test_coordinates_are_entries_of_the_flattened_observation():
    observations = np.arange(12.0).reshape(2, 2, 3)
    free = (Axis(name="a"), Axis(name="b"))
    assert Grid(free).cells(observations, []).tolist() == [[0, 1], [6, 7]]
    assert Grid(free, (5, 2)).cells(observations, []).tolist() == [[5, 2], [11, 8]]


def test_coordinates_of_infos_and_of_functions():
    infos = [{"at": (3, 4)}, {"at": (5, 6)}]
    free = (Axis(name="a"), Axis(name="b"))
    in_infos = Grid(free, "at")
    assert in_infos.cells(None, infos).tolist() == [[3, 4], [5, 6]]
    assert (in_infos.reads_observations, in_infos.reads_infos) == (False, True)
    computed = Grid(free, lambda observations, infos: observations["goal"] * 2)
    assert computed.cells({"goal": np.array([[1.2, 2.0]])}, []).tolist() == [[2, 4]]
    assert (computed.reads_observations, computed.reads_infos) == (True, True)
    assert (Grid(free).reads_observations, Grid(free).reads_infos) == (True, False)


def test_a_grid_with_ends_knows_its_size():
    assert POSITION.bins == 8
    assert Grid((POSITION, POSITION, POSITION)).n_cells == 512
    assert Grid((POSITION, Axis(name="free"))).n_cells is None
    text = "position -1 … 1 by 0.25, free by 1"
    assert Grid((POSITION, Axis(name="free"))).describe() == text
    assert (POSITION.label, Axis(name="x").label) == ("position (m)", "x")


def test_a_map_draws_whole_numbers_in_the_middle_of_their_cells():
    assert (POSITION.edge(0), POSITION.edge(8)) == (-1.0, 1.0)
    assert Axis(name="x", whole=True).edge(3) == 2.5


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": 0}, "size of axis 'x' must be a finite number above 0, got 0"),
        ({"size": math.nan}, "size of axis 'x' must be a finite number above 0, got nan"),
        ({"low": 1}, "axis 'x' needs both low and high, or neither; got 1 and None"),
        ({"low": 1, "high": 1}, "axis 'x' needs finite low < high, got 1 and 1"),
        ({"low": 0, "high": math.inf}, "axis 'x' needs finite low < high, got 0 and inf"),
        ({"low": 0, "high": 1, "size": 0.3}, "(1 - 0) / 0.3 = 3.33333"),
        ({"low": 0, "high": 1, "size": 3}, "into 1 … 1,048,576 equal parts"),
    ],
)
def test_wrong_axes_are_refused(wrong, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Axis(name="x", **wrong)


def test_wrong_grids_are_refused():
    with pytest.raises(ValueError, match="axes must hold at least one Axis"):
        Grid(())
    with pytest.raises(ValueError, match="one entry for each of 1 axes, got \\(0, 1\\)"):
        Grid((POSITION,), (0, 1))


@pytest.mark.parametrize(
    ("coordinates", "observations", "message"),
    [
        (None, np.array([[np.nan]]), "its coordinate 'position' is NaN"),
        ((3,), np.zeros((2, 3)), "observations have 3 entries, 0 … 2; there are no (3,)"),
        (None, {"a": np.zeros((2, 1))}, "observations are a dict of a: give the coordinates as a function"),
        (lambda observations, infos: observations[:, 0], np.zeros((2, 3)), "the shape (n, 1), got (2,)"),
        ("agent_pos", None, "infos hold no 'agent_pos' (they hold: TimeLimit.truncated)"),
    ],
)
def test_states_without_a_cell_are_refused(coordinates, observations, message):
    infos = [{"TimeLimit.truncated": False}]
    with pytest.raises(ValueError, match=re.escape(message)):
        Grid((POSITION,), coordinates).cells(observations, infos)


@pytest.mark.parametrize("task", [name for name in tasks_with_defaults() if "*" not in name and name != "CartPole-v0"])
def test_default_grids_cover_what_the_task_shows(task):
    with gymnasium.make(task) as env:
        grid = default_grid(task, env.observation_space)
        rng, states = np.random.default_rng(0), [env.reset(seed=0)[0]]
        env.action_space.seed(0)
        for _ in range(300):
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            states.append(observation)
            if terminated or truncated:
                env.reset(seed=int(rng.integers(1000)))
    cells = grid.cells(np.array(states), [])
    assert grid.n_cells < 100_000
    assert len(np.unique(cells, axis=0)) > 10
    # Random actions stay far from the ends of positions and angles that wrap or end an episode.
    assert np.ptp(cells[:, 0]) > 0
    for axis in grid.axes:
        assert axis.bins * axis.size == pytest.approx(axis.high - axis.low)


def default_grid_of(task):
    with gymnasium.make(task) as env:
        return default_grid(task, env.observation_space)


def test_angles_are_read_from_sine_and_cosine():
    angle = 0.3
    pendulum = default_grid_of("Pendulum-v1")
    (cell,) = pendulum.cells(np.array([[math.cos(angle), math.sin(angle), 2.1]]), []).tolist()
    assert cell == list(naive_cell(pendulum.axes, (angle, 2.1)))
    acrobot = default_grid_of("Acrobot-v1")
    state = [math.cos(1), math.sin(1), math.cos(-2), math.sin(-2), 3.0, -4.0]
    (cell,) = acrobot.cells(np.array([state]), []).tolist()
    assert cell == list(naive_cell(acrobot.axes, (1, -2, 3.0, -4.0)))


def test_the_plane_of_cart_pole_is_position_and_angle():
    grid = default_grid_of("CartPole-v1")
    assert [axis.name for axis in grid.axes] == ["position", "angle", "velocity", "angular velocity"]
    (cell,) = grid.cells(np.array([[1.0, -2.0, 0.1, 2.6]]), []).tolist()
    assert cell == list(naive_cell(grid.axes, (1.0, 0.1, -2.0, 2.6)))


def test_tasks_with_other_observations_have_no_default():
    image = spaces.Box(0, 255, (7, 7, 21), np.uint8)
    assert default_grid("MountainCar-v0", spaces.Box(-1, 1, (8,))) is None
    assert default_grid("MountainCar-v0", spaces.Discrete(3)) is None
    assert default_grid("ALE/Breakout-v5", image) is None
    assert default_grid("MiniGrid-Empty-8x8-v0", image).coordinates == "agent_pos"
    assert default_grid("minigrid:BabyAI-GoToObj-v0", spaces.Dict({})).coordinates == "agent_pos"


def test_the_largest_float_may_stand_for_infinity():
    high = np.array([4.8, np.finfo(np.float32).max, math.radians(24), np.finfo(np.float32).max], np.float32)
    assert default_grid("CartPole-v1", spaces.Box(-high, high)) is not None
    assert default_grid("CartPole-v1", spaces.Box(-high, 2 * high.clip(max=100))) is None


@pytest.mark.parametrize(
    "wrap",
    [
        wrappers.NormalizeObservation,
        lambda env: wrappers.RescaleObservation(env, np.float32(0), np.float32(1)),
    ],
)
def test_scaled_observations_have_no_default(wrap):
    with wrap(gymnasium.make("MountainCar-v0")) as env:
        assert default_grid("MountainCar-v0", env.observation_space) is None
