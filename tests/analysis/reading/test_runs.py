import json
import re

import numpy as np
import pytest

from revd.analysis.reading.runs import load_progress, load_run, load_runs
from revd.analysis.reading.sources import find_runs
from revd.episodes import Episodes, read_episodes
from revd.runs.config import TrainConfig
from revd.runs.parameters import Parameters
from revd.runs.train import train
from tests.analysis.support import ORIGIN, write_json, write_run


def test_a_run_directory_is_read(tmp_path):
    run = load_run(write_run(tmp_path / "run", method="PPO+REVD", seed=4, returns=(-200, -150.5), sparse=0.9))
    assert (run.method, run.seed, run.task, run.total_steps, run.state) == (
        "PPO+REVD", 4, "MountainCar-v0", 1000, "finished"
    )  # fmt: skip
    assert (run.label, run.sparse, run.reached, run.finished, run.error) == ("PPO+REVD", 0.9, 1000, True, None)
    assert run.origin.items() >= ORIGIN.items()
    assert run.settings["weight"] == 0.1
    assert "resolved" not in run.settings
    np.testing.assert_array_equal(run.episodes.steps, [10, 20])
    np.testing.assert_array_equal(run.episodes.returns, [-200, -150.5])


def test_runs_are_found_at_any_depth_and_ordered(tmp_path):
    write_run(tmp_path / "b" / "deep" / "x", method="PPO+REVD", seed=2)
    write_run(tmp_path / "a", method="PPO+REVD", seed=1)
    write_run(tmp_path / "c", method="PPO", seed=3)
    assert [(run.method, run.seed) for run in load_runs(tmp_path)] == [
        ("PPO", 3), ("PPO+REVD", 1), ("PPO+REVD", 2)
    ]  # fmt: skip


def test_overlapping_paths_give_each_run_once(tmp_path):
    write_run(tmp_path / "a" / "x")
    write_run(tmp_path / "b")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    found = find_runs([tmp_path, tmp_path / "a", tmp_path / "a" / "x", tmp_path / "link"])
    assert len(found.runs) == 2


def test_a_waiting_run_is_read(tmp_path):
    directory = write_run(tmp_path / "run")
    for name in ("status.json", "episodes.csv", "run.json"):
        (directory / name).unlink()
    run = load_run(directory)
    assert (run.state, run.reached, len(run.episodes.returns), run.origin) == ("unknown", 0, 0, {})


@pytest.mark.parametrize(
    ("steps", "returns", "reached"), [(700, [1, 2], 700), (0, [1, 2, 3], 30), (None, [], 0)]
)  # fmt: skip
def test_the_steps_of_an_unfinished_run(tmp_path, steps, returns, reached):
    run = load_run(write_run(tmp_path / "run", returns=returns, state="running", status={"steps": steps}))
    assert (run.reached, run.finished) == (reached, False)


def test_a_half_written_last_line_is_ignored(tmp_path):
    directory = write_run(tmp_path / "run", returns=[1, 2])
    with (directory / "episodes.csv").open("a") as file:
        file.write("30,20")
    np.testing.assert_array_equal(load_run(directory).episodes.returns, [1, 2])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"task": "A"}', '{"task": "A", "resolved": null}'])
def test_another_config_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match="is not a run directory"):
        load_run(tmp_path)


def test_a_broken_status_does_not_hide_a_run(tmp_path):
    for text in ("{", "[]"):
        directory = write_run(tmp_path / str(len(text)), returns=[1])
        (directory / "status.json").write_text(text)
        assert load_run(directory).state == "unknown"


def test_unreadable_runs_are_reported_and_the_others_kept(tmp_path):
    write_run(tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.json").write_text(json.dumps({"seed": 1}))
    found = find_runs([tmp_path])
    assert [run.directory.name for run in found.runs] == ["good"]
    (reason,) = found.unreadable
    assert "bad' is not a run directory: 'task' is missing" in reason


def test_the_message_without_runs_names_the_paths(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    paths = [tmp_path / name for name in ("empty", "absent", "file")]
    with pytest.raises(ValueError, match="no runs found") as error:
        find_runs(paths)
    message = str(error.value)
    assert f"'{tmp_path}/empty' holds no config.json" in message
    assert f"'{tmp_path}/absent' does not exist" in message
    assert f"'{tmp_path}/file' is neither a directory nor an archive of runs (*.csv.gz)" in message
    assert "\n" not in message
    with pytest.raises(ValueError, match="no directory was given"):
        find_runs([])


def test_the_message_without_readable_runs_says_why(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"no runs found.*'task' is missing"):
        find_runs([tmp_path])


def test_columns_of_the_logger_with_empty_cells(tmp_path):
    (tmp_path / "progress.csv").write_text("time/fps,train/loss\n100,\n200,0.5\n300,0.7")
    columns = load_progress(tmp_path / "progress.csv")
    np.testing.assert_array_equal(columns["time/fps"], [100, 200])
    np.testing.assert_array_equal(columns["train/loss"], [np.nan, 0.5])


def test_an_empty_or_missing_log_has_no_columns(tmp_path):
    assert load_progress(tmp_path / "progress.csv") == {}
    (tmp_path / "progress.csv").write_text("")
    assert load_progress(tmp_path / "progress.csv") == {}


@pytest.mark.parametrize(
    ("steps", "returns", "message"),
    [([1.0, 2.0], [1.0], "must be .n,. alike"), ([2.0, 1.0], [1.0, 1.0], "must not decrease")],
)
def test_impossible_episodes_are_refused(steps, returns, message):
    with pytest.raises(ValueError, match=message):
        Episodes(steps=np.array(steps), returns=np.array(returns))


def test_a_real_run_is_read(tmp_path):
    config = TrainConfig(
        task="CartPole-v1", steps=128, n_envs=2, output=tmp_path / "run", algo_params=Parameters(n_steps=32)
    )
    run = load_run(train(config))
    assert (run.method, run.task, run.total_steps, run.state) == ("PPO+REVD", "CartPole-v1", 128, "finished")
    assert len(run.episodes.returns) > 2
    assert run.origin["repeat"] == config.command()
    progress = load_progress(tmp_path / "run" / "progress.csv")
    assert progress["rollout/ep_rew_mean"][-1] == pytest.approx(run.episodes.returns.mean())
    assert {"exploration/bonus_share", "exploration/time_fraction"} <= set(progress)
    assert read_episodes(tmp_path / "run" / "episodes.csv").episodes.steps[-1] <= 128
    assert run.damage is None


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"task": ["q"]}, r"task must be text on one line, got \['q'\]"),
        ({"task": "two\nlines"}, "task must be text on one line"),
        ({"resolved": {"method": 3}}, "method must be text on one line, got 3"),
        ({"seed": "1"}, "seed must be an integer"),
        ({"seed": True}, "seed must be an integer"),
        ({"steps": 1e3}, "steps must be an integer"),
        ({"steps": 10**30}, "steps must be an integer of at least 0 and below"),
        ({"sparse": "x"}, "sparse must be a number from 0 to 1, or null, got 'x'"),
        ({"sparse": float("nan")}, "sparse must be a number from 0 to 1, or null, got nan"),
    ],
)
def test_values_of_other_types_are_unreadable(wrong, said, tmp_path):
    write_run(tmp_path / "good")
    path = write_run(tmp_path / "bad") / "config.json"
    write_json(path, json.loads(path.read_text()) | wrong)
    found = find_runs([tmp_path])
    assert [run.directory.name for run in found.runs] == ["good"]
    assert re.search(f"bad' is not a run directory: {said}", found.unreadable[0])


def test_a_status_of_other_types(tmp_path):
    directory = write_run(tmp_path / "run", state="failed", status={"error": ["a", 1]})
    assert load_run(directory).error == "['a', 1]"
    write_json(directory / "status.json", {"state": "running", "steps": float("inf")})
    with pytest.raises(ValueError, match=r"steps of status.json must be an integer .* got inf"):
        load_run(directory)


@pytest.mark.parametrize("name", ["config.json", "status.json"])
def test_json_that_is_too_deep(name, tmp_path):
    directory = write_run(tmp_path / "run")
    (directory / name).write_text("[" * 100_000)
    if name == "config.json":
        with pytest.raises(ValueError, match="is not a run directory"):
            load_run(directory)
    else:
        assert load_run(directory).state == "unknown"


def test_a_path_that_does_not_exist_is_not_left_out_silently(tmp_path):
    write_run(tmp_path / "good")
    with pytest.raises(ValueError, match=r"no runs found: .*absent' does not exist"):
        find_runs([tmp_path / "good", tmp_path / "absent"])
