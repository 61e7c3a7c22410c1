import json

import pytest

from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.figure_data import analyse_runs
from revd.analysis.webpage.chart_data import chart_data, methods_of, page_styles, shown_methods
from tests.analysis.support import write_run
from tests.analysis.webpage.support import write_runs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return analyse_runs(load_runs(write_runs(tmp_path_factory.mktemp("runs"))))


@pytest.fixture(scope="module")
def charts(data):
    return chart_data(data)


def test_curves_are_those_of_the_figures(data, charts):
    (figure,) = data.figures
    (cart_pole, mountain_car) = charts["groups"]["returns"]["charts"]
    assert [charts["tasks"][chart["task"]] for chart in (cart_pole, mountain_car)] == ["CartPole-v1", "MountainCar-v0"]
    assert (cart_pole["threshold"], mountain_car["threshold"]) == (None, -150)
    for series, (method, curve) in zip(cart_pole["series"], figure.curves["CartPole-v1"].items(), strict=True):
        assert charts["methods"][series["method"]]["name"] == method
        assert series["x"] == pytest.approx(curve.steps)
        assert series["mean"] == pytest.approx(curve.mean, rel=1e-4)
        assert series["low"] == pytest.approx(curve.low, rel=1e-4)
        assert series["high"] == pytest.approx(curve.high, rel=1e-4)


def test_tasks_of_several_families_keep_their_curves(tmp_path):
    """The figure over all of them compares methods, and has no curves."""
    tasks = ("minigrid/door-key-8x8", "bullet/ant", "bullet/hopper")
    for number, task in enumerate(tasks):
        for seed in (1, 2):
            write_run(tmp_path / f"{number}-a{seed}", seed=seed, task=task, returns=[1.0 * seed] * 20)
            write_run(tmp_path / f"{number}-b{seed}", seed=seed, task=task, returns=[3.0] * 20, method="PPO+REVD")
    data = analyse_runs(load_runs(tmp_path))
    assert "overall" in [figure.plan.name for figure in data.figures]
    charts = chart_data(data)
    assert {charts["tasks"][chart["task"]] for chart in charts["groups"]["returns"]["charts"]} == set(tasks)
    assert all(len(chart["series"]) == 2 for chart in charts["groups"]["returns"]["charts"])
    assert any(group.startswith("profile") for group in charts["groups"])


def test_weight_and_share_are_of_runs_that_log_them(charts):
    for group in ("weight", "share"):
        found = charts["groups"][group]["charts"]
        assert [[charts["methods"][series["method"]]["name"] for series in chart["series"]] for chart in found] == [
            ["PPO+REVD"],
            ["PPO+REVD"],
        ]
    assert charts["groups"]["share"]["charts"][0]["series"][0]["mean"][-1] == 0.5


def test_numbers_are_few_and_short(charts):
    text = json.dumps(charts, allow_nan=False)
    assert len(text) < 150_000
    longest = max(len(chart["series"][0]["x"]) for chart in charts["groups"]["returns"]["charts"])
    assert longest <= 200


def test_numbers_that_are_not_finite_become_null(tmp_path):
    for seed, final in ((1, 1e300), (2, -1e300)):
        write_run(tmp_path / str(seed), seed=seed, returns=[final] * 20)
    with pytest.warns(RuntimeWarning, match="overflow"):
        charts = chart_data(analyse_runs(load_runs(tmp_path)))
    json.dumps(charts, allow_nan=False)


def test_one_seed_has_no_band(tmp_path):
    write_run(tmp_path / "run", returns=[1.0] * 20)
    (chart,) = chart_data(analyse_runs(load_runs(tmp_path)))["groups"]["returns"]["charts"]
    assert "low" not in chart["series"][0]


def test_sparse_tasks_have_charts_of_their_own(tmp_path):
    write_run(tmp_path / "dense", returns=[1.0] * 20)
    write_run(tmp_path / "sparse", returns=[2.0] * 20, sparse=0.9)
    charts = chart_data(analyse_runs(load_runs(tmp_path)))
    titles = {chart["title"]: chart["series"][0]["mean"][-1] for chart in charts["groups"]["returns"]["charts"]}
    assert titles == {"MountainCar-v0": 1, "MountainCar-v0, sparse 0.9": 2}


def test_of_many_methods_the_best_are_shown_first(tmp_path):
    for number in range(11):
        write_run(tmp_path / str(number), method=f"PPO+M{number}", returns=[float(number)] * 20)
    data = analyse_runs(load_runs(tmp_path))
    assert len(methods_of(data)) == 11
    assert set(shown_methods(data)) == {f"PPO+M{number}" for number in range(3, 11)}
    looks = {(style.colour, str(style.dashes)) for style in page_styles(methods_of(data)).values()}
    assert len(looks) == 11, "no two look alike"
