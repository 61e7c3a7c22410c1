import numpy as np
import pytest

from revd.analysis.reading.coverage import CoverageSeries, load_coverage, load_visits
from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.coverage import analyse_coverage, coverage_curves
from revd.analysis.statistics.grouping import name_variants
from revd.analysis.statistics.visit_maps import map_visits
from revd.coverage import Axis
from revd.coverage.stages import Stage, Visits
from tests.analysis.coverage import FREE, make_visits, write_counted_run
from tests.analysis.support import write_run


def series(steps, cells):
    return CoverageSeries(steps=np.array(steps, float), cells=np.array(cells, float), share=None)


def test_the_cells_of_a_run_are_those_of_its_log(tmp_path):
    run = write_counted_run(tmp_path / "run", cells=(3, 5, 9), share=0.5)
    found = load_coverage(run)
    assert (found.steps.tolist(), found.cells.tolist(), found.share) == ([100, 200, 300], [3, 5, 9], 0.5)
    assert load_coverage(write_run(tmp_path / "other")) is None
    assert load_visits(tmp_path / "other") is None


def test_rows_without_a_number_are_left_out(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "progress.csv").write_text("time/total_timesteps,exploration/coverage\n100,\n200,7\n")
    found = load_coverage(run)
    assert (found.steps.tolist(), found.cells.tolist(), found.share) == ([200], [7], None)
    (run / "progress.csv").write_text("time/total_timesteps,exploration/coverage\n100,\n")
    assert load_coverage(run) is None


def test_a_curve_is_the_mean_of_its_runs_at_every_step():
    curves = coverage_curves({"PPO": [series([50, 100], [2, 4]), series([60, 110], [4, 8])]})
    curve = curves["PPO"]
    assert curve.steps[0] >= 60, "when all runs have begun"
    assert curve.steps[-1] == 100, "when the shortest ends"
    assert (curve.mean[0], curve.mean[-1]) == (3.0, 4.0)
    assert curve.deviation[-1] == pytest.approx(0.0)
    assert curve.deviation[0] == pytest.approx(2**0.5)
    assert curve.seeds == 2


def test_a_run_of_one_rollout_has_a_point():
    (curve,) = coverage_curves({"PPO": [series([50], [2])]}).values()
    assert (curve.steps.tolist(), curve.mean.tolist()) == ([50], [2])


def test_runs_are_grouped_by_task_and_method(tmp_path):
    for seed, last in ((1, 10), (2, 14)):
        write_counted_run(tmp_path / f"a{seed}", seed=seed, cells=(3, last), share=last / 20)
        write_counted_run(tmp_path / f"b{seed}", method="PPO+REVD", seed=seed, cells=(3, last + 5), share=None)
    write_counted_run(tmp_path / "c", task="CartPole-v1", sparse=0.9, cells=(1, 2))
    write_counted_run(tmp_path / "d", state="failed", cells=(1, 99))
    write_run(tmp_path / "e", task="Pendulum-v1")
    data = analyse_coverage(name_variants(load_runs(tmp_path)))
    assert {task: list(methods) for task, methods in data.curves.items()} == {
        "CartPole-v1, sparse 0.9": ["PPO"],
        "MountainCar-v0": ["PPO", "PPO+REVD"],
    }
    results = {(result.setting, result.method): (result.cells, result.shares) for result in data.results}
    assert results["MountainCar-v0", "PPO"] == ((10, 14), (0.5, 0.7))
    assert results["MountainCar-v0", "PPO+REVD"] == ((15, 19), ())
    assert data.maps == ()


def test_maps_add_up_the_runs_of_a_method(tmp_path):
    for seed in (1, 2):
        visits = [(100 * stage, [(0, 1), (2, stage)], [seed, 1]) for stage in range(1, 9)]
        write_counted_run(tmp_path / str(seed), seed=seed, visits=visits)
    (maps,) = analyse_coverage(load_runs(tmp_path)).maps
    assert (maps.origin, maps.seeds) == ((-1, 0), {"PPO": 2}), "one cell around what was visited"
    stages = maps.methods["PPO"]
    assert [stage.steps for stage in stages] == [200, 400, 600, 800]
    assert stages[0].visits.shape == (5, 10)
    expected = np.zeros((5, 10), int)
    expected[1, 1], expected[3, 2] = 3, 2
    np.testing.assert_array_equal(stages[0].visits, expected)


def test_maps_of_axes_with_ends_show_all_of_them():
    ends = (Axis(name="a", low=0, high=5), Axis(name="b", low=-1, high=1, size=0.5))
    found = map_visits("task", ends, {"PPO": [make_visits([(10, [(1, 1)], [4])], plane=ends)]}, [])
    assert found.origin == (0, 0)
    assert found.methods["PPO"][0].visits.shape == (5, 4)


def test_shorter_runs_decide_which_stages_are_compared():
    short, long = ([(100 * n, [(0, 0)], [n]) for n in range(1, last)] for last in (5, 9))
    found = map_visits("task", FREE, {"PPO": [make_visits(short)], "PPO+REVD": [make_visits(long)]}, [])
    for method in ("PPO", "PPO+REVD"):
        assert [stage.steps for stage in found.methods[method]] == [100, 200, 300, 400]


def test_visits_that_cannot_be_drawn_are_told(tmp_path):
    visits = [(100, [(0, 1)], [3])]
    write_counted_run(tmp_path / "a", seed=1, visits=visits)
    write_counted_run(tmp_path / "b", seed=2, visits=visits, plane=(Axis(name="p"), Axis(name="q")))
    (write_counted_run(tmp_path / "c", seed=3, visits=visits) / "visits.safetensors").write_bytes(b"\0" * 99)
    data = analyse_coverage(load_runs(tmp_path))
    assert data.maps[0].seeds == {"PPO": 1}
    assert data.notes[0] == "MountainCar-v0: the visits of PPO, seed 2, are of another plane"
    assert data.notes[1].startswith("no map of PPO, seed 3: ")
    notes = []
    far = Visits(
        plane=FREE, stages=(Stage(steps=1, distinct=2, cells=np.array([(0, 0), (9_999, 9_999)]), visits=np.ones(2)),)
    )
    assert map_visits("task", FREE, {"PPO": [far]}, notes) is None
    assert notes == ["task: the visited cells lie too far apart for a map (10,002 x 10,002)"]
