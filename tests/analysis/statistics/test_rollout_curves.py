import numpy as np
import pytest

from revd.analysis.reading.runs import load_run
from revd.analysis.statistics.rollout_curves import rollout_curves, rollout_means
from tests.analysis.support import write_run

HEADER = "time/total_timesteps,exploration/weight,exploration/bonus_share"
WEIGHT, SHARE = "exploration/weight", "exploration/bonus_share"


def make_run(folder, *rows, seed=1, **named):
    directory = write_run(folder / str(seed), seed=seed, returns=[1.0] * 100, **{"method": "PPO+REVD", **named})
    (directory / "progress.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    return load_run(directory)


def test_the_value_at_a_step_is_the_mean_since_the_step_before(tmp_path):
    run = make_run(tmp_path, "200,1,0", "300,2,0", "400,4,0", "900,8,0")
    means = rollout_means(run, WEIGHT, np.array([100.0, 200.0, 400.0, 600.0, 1000.0]))
    assert np.isnan(means[0])
    assert list(means[1:]) == [1, 3, 4, 8], "where no rollout ended, the value of the last one"


def test_rollouts_without_a_value_are_left_out(tmp_path):
    run = make_run(tmp_path, "100,1,", "200,,0.5", "oops,9,9", "300,3,0.1")
    assert list(rollout_means(run, WEIGHT, np.array([300.0]))) == [2]
    assert list(rollout_means(run, SHARE, np.array([300.0]))) == [pytest.approx(0.3)]


def test_rows_that_go_back_are_put_in_order(tmp_path):
    run = make_run(tmp_path, "300,3,0", "100,1,0", "200,2,0")
    assert list(rollout_means(run, WEIGHT, np.array([100.0, 200.0, 300.0]))) == [1, 2, 3]


def test_a_curve_is_the_mean_over_seeds_with_a_band_within_the_values(tmp_path):
    runs = [make_run(tmp_path, "100,0,0", "1000,0,0"), make_run(tmp_path, "500,2,0", "1000,2,0", seed=2)]
    found = rollout_curves(runs, WEIGHT)["PPO+REVD"]
    assert found.steps[0] == 500, "the first point at which both have a value"
    assert found.steps[-1] == 1000
    assert (found.mean == 1).all()
    assert found.deviation == pytest.approx(np.sqrt(2))
    assert (found.low == 0).all()
    assert (found.high == 2).all()
    assert found.seeds == 2


def test_a_curve_ends_where_the_shortest_run_does(tmp_path):
    late = make_run(tmp_path, "10,1,0", "500,1,0", seed=2, state="running", steps=1000)
    assert late.reached == 1000, "by its episodes"
    short = make_run(tmp_path, "10,1,0", seed=3, state="running", spacing=5)
    assert rollout_curves([late, short], WEIGHT)["PPO+REVD"].steps[-1] == short.reached == 500


def test_runs_that_cannot_be_drawn_have_no_curve(tmp_path):
    failed = make_run(tmp_path, "100,1,0", state="failed")
    archived = load_run(write_run(tmp_path / "archived", returns=[1.0] * 9))
    assert rollout_curves([failed, archived], WEIGHT) == {}
    never = make_run(tmp_path, "100,,0", seed=5)
    assert rollout_curves([never], WEIGHT) == {}
