import numpy as np
import pytest
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from revd.analysis.drawing.coverage_curves import coverage_figure
from revd.analysis.drawing.heat_maps import draw_visits, heat_map_caption, heat_map_figure
from revd.analysis.drawing.styles import method_styles
from revd.analysis.statistics.curves import Curve
from revd.analysis.statistics.visit_maps import StageMap, map_visits
from revd.coverage import Axis
from tests.analysis.coverage import FREE, make_visits

ENDS = (Axis(name="position", low=-1.0, high=2.0, unit="m"), Axis(name="velocity", size=0.5, low=-1.0, high=1.0))


@pytest.fixture
def axes():
    return Figure().add_subplot()


def make_maps(methods=("PPO",), *, plane=FREE, runs=1):
    visits = {
        method: [make_visits([(100, [(1, 2)], [7]), (200, [(1, 2), (2, 1)], [7, 5])], plane=plane)] * runs
        for method in methods
    }
    return map_visits("minigrid/door-key-8x8", plane, visits, [])


def test_a_map_lies_where_its_coordinates_are(axes):
    visits = np.zeros((3, 4), int)
    visits[2, 0] = 9
    stage = StageMap(steps=1, distinct=1, visits=visits)
    image = draw_visits(axes, stage, plane=ENDS, origin=(0, 0), norm=LogNorm(1, 10))
    assert image.get_extent() == [-1, 2, -1, 1]
    drawn = image.get_array()
    assert drawn.shape == (4, 3), "rows are the second axis"
    assert drawn[0, 2] == 9
    assert drawn.mask.sum() == 11, "all others were never visited"
    assert image.origin == "lower"
    assert axes.get_aspect() == "auto"
    assert not axes.yaxis_inverted()


def test_positions_are_squares_around_whole_numbers_with_y_downwards(axes):
    stage = StageMap(steps=1, distinct=1, visits=np.ones((3, 4), int))
    image = draw_visits(axes, stage, plane=FREE, origin=(2, 5), norm=LogNorm(1, 10))
    assert image.get_extent() == [1.5, 4.5, 4.5, 8.5]
    assert axes.get_aspect() == 1
    assert axes.yaxis_inverted()


def test_a_figure_has_a_row_for_each_method_and_one_scale_of_colours():
    figure = heat_map_figure(make_maps(("PPO", "PPO+REVD"), plane=ENDS))
    body, below = figure.subfigs
    *panels, bar = body.axes
    assert len(panels) == 4, "two stages, since there are no more"
    assert {(panel.images[0].norm.vmin, panel.images[0].norm.vmax) for panel in panels} == {(1, 7)}
    assert panels[0].get_ylabel() == "PPO\nvelocity"
    assert panels[2].get_ylabel() == "PPO+REVD\nvelocity"
    assert [panel.get_xlabel() for panel in panels] == ["", "", "position (m)", "position (m)"]
    assert [panel.get_title() for panel in panels[:2]] == ["100 steps: 1 cell", "200 steps: 2 cells"]
    assert bar.get_ylabel() == "visits"
    assert body.get_suptitle() == "Visited states: Door Key 8x8"
    assert "a quarter" in below.texts[0].get_text()


def test_the_caption_says_what_was_summed_and_left_out():
    assert "since the start of the training. White" in heat_map_caption(make_maps())
    assert "summed over its runs (3 of each method)" in heat_map_caption(make_maps(runs=3))
    many = make_maps([f"PPO+{number}" for number in range(10)])
    assert heat_map_caption(many).endswith("2 methods left out.")
    assert len(heat_map_figure(many).subfigs[0].axes) == 8 * 2 + 1


def test_curves_of_cells_have_a_panel_for_each_task():
    curve = Curve(steps=np.array([10.0, 20.0]), mean=np.array([5.0, 6.0]), deviation=np.full(2, np.nan), seeds=1)
    curves = {"MountainCar-v0": {"PPO": curve, "PPO+REVD": curve}, "bullet/ant, sparse 0.9": {"PPO": curve}}
    figure = coverage_figure(curves, styles=method_styles(["PPO", "PPO+REVD"]))
    first, second = figure.subfigs[0].axes
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["MountainCar-v0", "Ant, sparse 0.9"]
    assert (len(first.lines), len(second.lines)) == (2, 1)
    assert first.get_ylim()[0] == 0
    (legend,) = figure.subfigs[0].legends
    assert [text.get_text() for text in legend.get_texts()] == ["PPO", "PPO+REVD"]
