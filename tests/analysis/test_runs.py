import numpy as np
import pytest

from revd.analysis.runs import Episodes, find_runs, load_episodes, load_progress, load_run
from revd.experiments.config import Parameters, TrainConfig
from revd.experiments.run import train
from tests.analysis.support import write_run


def test_a_run_directory_is_read(tmp_path):
    run = load_run(write_run(tmp_path / "run", method="PPO+REVD", seed=4, returns=(-200, -150.5)))
    assert (run.method, run.seed, run.task, run.total_steps, run.state) == (
        "PPO+REVD", 4, "MountainCar-v0", 1000, "finished"
    )  # fmt: skip
    np.testing.assert_array_equal(run.episodes.steps, [10, 20])
    np.testing.assert_array_equal(run.episodes.returns, [-200, -150.5])


def test_runs_are_found_at_any_depth_and_ordered(tmp_path):
    write_run(tmp_path / "b" / "deep" / "x", method="PPO+REVD", seed=2)
    write_run(tmp_path / "a", method="PPO+REVD", seed=1)
    write_run(tmp_path / "c", method="PPO", seed=3)
    assert [(run.method, run.seed) for run in find_runs(tmp_path)] == [
        ("PPO", 3), ("PPO+REVD", 1), ("PPO+REVD", 2)
    ]  # fmt: skip


def test_a_run_without_episodes_is_read(tmp_path):
    assert load_run(write_run(tmp_path / "run")).episodes.returns.shape == (0,)


def test_something_else_is_refused(tmp_path):
    directory = write_run(tmp_path / "run")
    (directory / "episodes.csv").unlink()
    with pytest.raises(ValueError, match=r"run' is not a complete run directory.*episodes.csv"):
        load_run(directory)


def test_columns_of_the_logger_with_empty_cells(tmp_path):
    (tmp_path / "progress.csv").write_text("time/fps,train/loss\n100,\n200,0.5\n")
    columns = load_progress(tmp_path / "progress.csv")
    np.testing.assert_array_equal(columns["time/fps"], [100, 200])
    np.testing.assert_array_equal(columns["train/loss"], [np.nan, 0.5])


def test_an_empty_log_has_no_columns(tmp_path):
    (tmp_path / "progress.csv").write_text("")
    assert load_progress(tmp_path / "progress.csv") == {}


@pytest.mark.parametrize(
    ("steps", "returns", "message"),
    [([1.0, 2.0], [1.0], "must be .n,. alike"), ([2.0, 1.0], [1.0, 1.0], "must not decrease")],
)
def test_impossible_episodes_are_refused(steps, returns, message):
    with pytest.raises(ValueError, match=message):
        Episodes(steps=np.array(steps), returns=np.array(returns))


def test_what_a_training_writes_is_what_is_read(tmp_path):
    config = TrainConfig(
        task="CartPole-v1", steps=128, n_envs=2, output=tmp_path / "run", algo_params=Parameters(n_steps=32)
    )
    run = load_run(train(config))
    assert (run.method, run.task, run.total_steps, run.state) == ("PPO+REVD", "CartPole-v1", 128, "finished")
    assert len(run.episodes.returns) > 2
    progress = load_progress(tmp_path / "run" / "progress.csv")
    assert progress["rollout/ep_rew_mean"][-1] == pytest.approx(run.episodes.returns.mean())
    assert load_episodes(tmp_path / "run" / "episodes.csv").steps[-1] <= 128
