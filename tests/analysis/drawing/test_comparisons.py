import numpy as np
import pytest
from matplotlib.figure import Figure

from revd.analysis.drawing.captions import comparison_caption
from revd.analysis.drawing.comparisons import comparison_figure, draw_intervals, draw_profile
from revd.analysis.drawing.styles import Style, method_styles
from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.aggregate import Estimate, Profile
from revd.analysis.statistics.figure_data import analyse_runs
from revd.episodes import FINAL_RETURN
from tests.analysis.support import write_run


@pytest.fixture
def axes():
    return Figure().add_subplot()


def result_of(folder, methods, seeds=(1, 2)):
    for method in methods:
        for seed in seeds:
            write_run(folder / f"{method}-{seed}", method=method, seed=seed, returns=[seed + len(method)] * 9)
    return analyse_runs(load_runs(folder)).figures[-1]


def test_an_estimate_is_a_bar_with_a_line_in_it(axes):
    rows = [("PPO", Estimate(value=0.5, low=0.25, high=0.75), "red"), ("A2C", Estimate(value=1, low=1, high=1), "blue")]
    assert draw_intervals(axes, rows) is axes
    bars = [bar.get_bbox() for bar in axes.patches]
    assert [(bar.x0, bar.x1) for bar in bars] == [(0.25, 0.75), (1, 1)]
    assert [line.get_segments()[0][0][0] for line in axes.collections] == [0.5, 1]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["PPO", "A2C"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1], "the first row is on top"


def test_a_profile_is_a_line_and_a_band(axes):
    points = np.array([0.0, 0.5, 1.0])
    profile = Profile(thresholds=points, fraction=1 - points, low=0.5 - points / 2, high=1 - points / 2)
    assert draw_profile(axes, profile, style=Style(colour="red", dashes="solid"), label="PPO") is axes
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[0, 1], [0.5, 0.5], [1, 0]])
    assert len(axes.collections) == 1


def test_the_figure_states_how_scores_are_made(tmp_path):
    result = result_of(tmp_path, ["PPO", "PPO+REVD"])
    figure = comparison_figure(result, styles=method_styles(["PPO", "PPO+REVD"]))
    body, below = figure.subfigs
    assert [axes.get_title(loc="left") for axes in body.axes] == [
        "Interquartile mean", "Performance profile", "Probability of improvement"
    ]  # fmt: skip
    assert "one task only, MountainCar-v0" in body.get_suptitle()
    assert [label.get_text() for label in body.axes[2].get_yticklabels()] == ["PPO+REVD\nover PPO"]
    caption = below.texts[0].get_text().replace("\n", " ")
    for words in (
        FINAL_RETURN,
        "worst run of all methods is 0",
        "95% stratified bootstrap",
        "PPO 2, PPO+REVD 2",
        "too narrow",
    ):
        assert words in caption


def test_of_many_methods_the_best_are_in_colour_and_the_baseline_is(tmp_path):
    for variant in range(18):
        for seed in (1, 2):
            path = tmp_path / f"{variant}-{seed}"
            write_run(path, method="PPO+RE3", seed=seed, returns=[-100 + 5 * variant + seed] * 9, weight=variant)
    write_run(tmp_path / "p1", seed=1, returns=[-199.5] * 9)
    write_run(tmp_path / "p2", seed=2, returns=[-199.0] * 9)
    (result,) = analyse_runs(load_runs(tmp_path)).figures
    means, profiles, improvements = comparison_figure(result, styles={}).subfigs[0].axes
    shown = [f"PPO+RE3 (weight={variant})" for variant in range(3, 18)]
    assert {label.get_text().replace("\n", " ") for label in means.get_yticklabels()} == {"PPO", *shown}, "16 rows"
    rows = {label.get_text().replace("\n", " ") for label in improvements.get_yticklabels()}
    assert rows == {f"{label} over PPO" for label in shown}
    assert {line.get_label() for line in profiles.lines} == {"PPO", *shown[-7:]}, "8 lines"
    grey = [bar.get_facecolor()[0] for bar in means.patches].count(0.6)
    assert grey == 8
    assert "8 of 19 methods, those without a bonus and then the best" in comparison_caption(result.aggregate)


def test_an_empty_third_panel_says_what_is_missing(tmp_path):
    result = result_of(tmp_path, ["PPO"])
    write_run(tmp_path / "one", method="PPO+REVD", returns=[1] * 9)
    (result,) = analyse_runs(load_runs(tmp_path)).figures
    figure = comparison_figure(result, styles=method_styles(["PPO", "PPO+REVD"]))
    assert figure.subfigs[0].axes[2].texts[0].get_text().replace("\n", " ") == (
        "only one method has runs of at least 2 seeds on every task: PPO"
    )


@pytest.mark.parametrize(
    ("methods", "rows"),
    [
        (["PPO", "PPO+RE3"], ["PPO+RE3\nover PPO"]),
        (["PPO", "A2C"], ["A2C\nover PPO"]),
        (["PPO+RE3", "PPO+RIDE"], ["PPO+RIDE\nover PPO+RE3"]),
        (["PPO", "TRPO+REVD", "TRPO"], ["TRPO+REVD\nover TRPO", "TRPO\nover PPO"]),
    ],
)
def test_every_two_methods_are_compared(tmp_path, methods, rows):
    figure = comparison_figure(result_of(tmp_path, methods), styles=method_styles(methods))
    panel = figure.subfigs[0].axes[2]
    assert sorted(label.get_text() for label in panel.get_yticklabels()) == sorted(rows)
    assert not panel.texts


def test_without_any_intervals_there_is_no_figure(tmp_path):
    with pytest.raises(ValueError, match=r"has no comparison: .*at least 2 seeds"):
        comparison_figure(result_of(tmp_path, ["PPO"], seeds=(1,)), styles={})
