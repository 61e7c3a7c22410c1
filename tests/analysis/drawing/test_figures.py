from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from revd.analysis.drawing import figures
from revd.analysis.drawing.figures import captioned_figure, draw_methods, draw_range_curve, grid_shape, learning_curves
from revd.analysis.drawing.styles import COLOURS
from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.curves import range_curve
from tests.analysis.support import episodes, write_run


@pytest.fixture
def axes():
    return Figure().add_subplot()


@pytest.fixture
def curve():
    return range_curve([episodes(0, 2, 4), episodes(10, 10, 10)], total_steps=30, points=3, window=1)


def test_a_method_is_its_mean_its_seeds_and_their_range(axes, curve):
    assert draw_range_curve(axes, curve, label="PPO", colour="#0072B2") is axes
    *seeds, mean = axes.lines
    np.testing.assert_array_equal(mean.get_xydata(), [[10, 5], [20, 6], [30, 7]])
    assert mean.get_label() == "PPO"
    np.testing.assert_array_equal([line.get_ydata() for line in seeds], curve.curves)
    assert all(line.get_linewidth() < mean.get_linewidth() for line in seeds)
    (area,) = axes.collections
    corners = area.get_paths()[0].vertices
    assert {(10.0, 0.0), (10.0, 10.0), (30.0, 4.0), (30.0, 10.0)} <= set(map(tuple, corners))


def test_one_seed_has_no_band(axes):
    draw_range_curve(axes, range_curve([episodes(1, 2)], total_steps=20, points=2), label="PPO", colour="red")
    assert len(axes.lines) == 1
    assert not axes.collections


def test_methods_differ_in_colour_and_the_threshold_is_drawn(axes, curve):
    one = range_curve([episodes(1, 2)], total_steps=20, points=2)
    assert draw_methods(axes, {"PPO": curve, "PPO+REVD": one}, threshold=-150) is axes
    labelled = {line.get_label(): to_rgba(line.get_color()) for line in axes.lines}
    assert labelled["PPO (2 seeds)"] == to_rgba(COLOURS[0])
    assert labelled["PPO+REVD (1 seed)"] == to_rgba(COLOURS[1])
    assert list(axes.lines[-1].get_ydata()) == [-150, -150]


def test_variants_of_a_method_are_not_pooled(tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / str(seed), seed=seed, returns=[-200] * 40)
    first, second = load_runs(tmp_path)
    figure = learning_curves([replace(first, variant="weight=auto"), replace(second, variant="weight=0.1")])
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert sorted(labels) == sorted(f"{first.method} (weight={weight}) (1 seed)" for weight in ("auto", "0.1"))


def test_a_figure_of_runs_is_labelled(tmp_path):
    write_run(tmp_path / "a", seed=1, returns=[-200, -150] * 20, steps=120_000)
    write_run(tmp_path / "b", seed=2, returns=[-200] * 40, steps=120_000)
    write_run(tmp_path / "c", seed=3, returns=[])
    figure = learning_curves(load_runs(tmp_path), threshold=-150, window=10)
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "MountainCar-v0"
    assert axes.get_ylabel() == "return, mean of the last 10 episodes"
    assert "min to max" in axes.get_legend().get_title().get_text()
    figure.canvas.draw()
    ticks = {label.get_text() for label in axes.get_xticklabels()}
    assert "20k" in ticks


@pytest.mark.parametrize(("steps", "label"), [(0, "0"), (500, "500"), (2500, "2.5k"), (3e6, "3M")])
def test_steps_are_abbreviated(steps, label):
    assert figures._thousands(steps, None) == label


def test_runs_of_two_tasks_do_not_share_a_figure(tmp_path):
    write_run(tmp_path / "a", returns=[1])
    write_run(tmp_path / "b", task="CartPole-v1", returns=[1])
    with pytest.raises(ValueError, match="exactly one task"):
        learning_curves(load_runs(tmp_path))
    with pytest.raises(ValueError, match="exactly one task"):
        learning_curves([])


def test_a_caption_makes_the_figure_taller_and_stays_inside():
    figure, body = captioned_figure(5.0, 3.0, "W" + "ords and words " * 12)
    width, height = figure.get_size_inches()
    assert width == 5.0
    assert height > 3.3
    axes = body.subplots()
    figure.canvas.draw()
    (text,) = figure.subfigs[1].texts
    box = text.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert 0 <= box.y0 < box.y1 < axes.get_window_extent().y0


@pytest.mark.parametrize(
    ("panels", "shape"), [(1, (1, 1)), (2, (1, 2)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3)), (6, (2, 3)), (7, (3, 3))]
)
def test_six_tasks_are_two_rows_of_three(panels, shape):
    assert grid_shape(panels) == shape
