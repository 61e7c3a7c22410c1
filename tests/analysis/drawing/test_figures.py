import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from revd.analysis.drawing import figures
from revd.analysis.drawing.figures import captioned_figure, draw_band, draw_methods, learning_curves, save_figure
from revd.analysis.drawing.styles import COLOURS
from revd.analysis.reading.runs import find_runs
from revd.analysis.statistics.curves import band
from tests.analysis.support import episodes, write_run


@pytest.fixture
def axes():
    return Figure().add_subplot()


@pytest.fixture
def curve():
    return band([episodes(0, 2, 4), episodes(10, 10, 10)], total_steps=30, points=3, window=1)


def test_a_method_is_its_mean_its_seeds_and_their_range(axes, curve):
    assert draw_band(axes, curve, label="PPO", colour="#0072B2") is axes
    *seeds, mean = axes.lines
    np.testing.assert_array_equal(mean.get_xydata(), [[10, 5], [20, 6], [30, 7]])
    assert mean.get_label() == "PPO"
    np.testing.assert_array_equal([line.get_ydata() for line in seeds], curve.curves)
    assert all(line.get_linewidth() < mean.get_linewidth() for line in seeds)
    (area,) = axes.collections
    corners = area.get_paths()[0].vertices
    assert {(10.0, 0.0), (10.0, 10.0), (30.0, 4.0), (30.0, 10.0)} <= set(map(tuple, corners))


def test_one_seed_has_no_band(axes):
    draw_band(axes, band([episodes(1, 2)], total_steps=20, points=2), label="PPO", colour="red")
    assert len(axes.lines) == 1
    assert not axes.collections


def test_methods_differ_in_colour_and_the_threshold_is_drawn(axes, curve):
    one = band([episodes(1, 2)], total_steps=20, points=2)
    assert draw_methods(axes, {"PPO": curve, "PPO+REVD": one}, threshold=-150) is axes
    labelled = {line.get_label(): to_rgba(line.get_color()) for line in axes.lines}
    assert labelled["PPO (2 seeds)"] == to_rgba(COLOURS[0])
    assert labelled["PPO+REVD (1 seed)"] == to_rgba(COLOURS[1])
    assert list(axes.lines[-1].get_ydata()) == [-150, -150]


def test_a_figure_of_runs_is_labelled_and_saved(tmp_path):
    write_run(tmp_path / "a", seed=1, returns=[-200, -150] * 20, steps=120_000)
    write_run(tmp_path / "b", seed=2, returns=[-200] * 40, steps=120_000)
    write_run(tmp_path / "c", seed=3, returns=[])
    figure = learning_curves(find_runs(tmp_path), threshold=-150, window=10)
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "MountainCar-v0"
    assert axes.get_ylabel() == "return, mean of the last 10 episodes"
    assert "min to max" in axes.get_legend().get_title().get_text()
    path = save_figure(figure, tmp_path / "curve.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    ticks = {label.get_text() for label in axes.get_xticklabels()}
    assert "20k" in ticks


@pytest.mark.parametrize(("steps", "label"), [(0, "0"), (500, "500"), (2500, "2.5k"), (3e6, "3M")])
def test_steps_are_abbreviated(steps, label):
    assert figures._thousands(steps, None) == label


def test_runs_of_two_tasks_do_not_share_a_figure(tmp_path):
    write_run(tmp_path / "a", returns=[1])
    write_run(tmp_path / "b", task="CartPole-v1", returns=[1])
    with pytest.raises(ValueError, match="exactly one task"):
        learning_curves(find_runs(tmp_path))
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


def test_equal_figures_give_equal_files(tmp_path):
    figure, body = captioned_figure(2.0, 2.0, "caption")
    body.subplots()
    for suffix, start in ((".png", b"\x89PNG"), (".pdf", b"%PDF")):
        first, second = (save_figure(figure, tmp_path / f"{name}{suffix}").read_bytes() for name in "ab")
        assert first == second
        assert first.startswith(start)


def test_names_with_dollar_signs_are_no_formulas(tmp_path):
    figure = Figure()
    axes = figure.add_subplot()
    axes.plot([0, 1], label="$\\nowhere$")
    axes.set_title("$\\frac$")
    axes.legend()
    save_figure(figure, tmp_path / "names.png")
    texts = [axes.title, *axes.get_legend().get_texts()]
    assert [(text.get_text(), text.get_parse_math()) for text in texts] == [("$\\frac$", False), ("$\\nowhere$", False)]
