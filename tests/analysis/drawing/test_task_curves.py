import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from revd.analysis.drawing.styles import Style, method_styles
from revd.analysis.drawing.task_curves import curve_figure, draw_curve, draw_task
from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.curves import Curve
from revd.analysis.statistics.figure_data import analyse_runs
from tests.analysis.support import write_run

STYLE = Style(colour="#0072B2", dashes="solid")


@pytest.fixture
def axes():
    return Figure().add_subplot()


def make_curve(seeds=2):
    deviation = np.array([1.0, 2.0]) if seeds > 1 else np.full(2, np.nan)
    return Curve(steps=np.array([10.0, 20.0]), mean=np.array([5.0, 6.0]), deviation=deviation, seeds=seeds)


def test_a_method_is_its_mean_and_deviation(axes):
    assert draw_curve(axes, make_curve(), style=STYLE) is axes
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xydata(), [[10, 5], [20, 6]])
    assert to_rgba(line.get_color()) == to_rgba(STYLE.colour)
    corners = set(map(tuple, axes.collections[0].get_paths()[0].vertices))
    assert {(10.0, 4.0), (10.0, 6.0), (20.0, 4.0), (20.0, 8.0)} <= corners


def test_one_seed_has_no_band(axes):
    draw_curve(axes, make_curve(seeds=1), style=STYLE)
    assert not axes.collections


def test_a_panel_spans_its_curves(axes):
    assert draw_task(axes, "bullet/ant", {"PPO": make_curve()}, styles={"PPO": STYLE}) is axes
    assert axes.get_title(loc="left") == "Ant"
    assert axes.get_xlim() == (0, 20)


def test_an_empty_panel_says_so(axes):
    draw_task(axes, "bullet/ant", {}, styles={})
    assert axes.texts[0].get_text() == "no finished episodes"


def test_the_figure_has_a_panel_for_each_task_and_one_legend(tmp_path):
    for index, task in enumerate(("ant", "hopper", "humanoid", "walker-2d", "cart-pole")):
        write_run(tmp_path / task, task=f"bullet/{task}", returns=[1] * 20, method="PPO")
        state = "running" if index else "finished"
        write_run(tmp_path / task / "x", task=f"bullet/{task}", returns=[2] * 20, method="PPO+REVD", state=state)
    (result,) = analyse_runs(load_runs(tmp_path)).figures
    figure = curve_figure(result, styles=method_styles(["PPO", "PPO+REVD"]), window=7)
    body, below = figure.subfigs
    assert [axes.get_title(loc="left") for axes in body.axes] == ["Ant", "Cart Pole", "Hopper", "Humanoid", "Walker 2D"]
    assert [axes.get_xlabel() for axes in body.axes] == ["", "", *["environment steps"] * 3]
    assert [text.get_text() for text in body.legends[0].get_texts()] == ["PPO", "PPO+REVD"]
    caption = below.texts[0].get_text().replace("\n", " ")
    for words in ("(1 of each", "sample standard deviation", "last 7 episodes", "Some runs are unfinished"):
        assert words in caption
