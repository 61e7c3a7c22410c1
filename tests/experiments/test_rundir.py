import json
import subprocess
from dataclasses import replace

import pytest

from revd.experiments.config import TrainConfig
from revd.experiments.rundir import (
    RunDirectory,
    Status,
    describe_software,
    write_json,
)

CONFIG = TrainConfig(task="CartPole-v1", steps=100)


@pytest.fixture
def run(tmp_path):
    directory = RunDirectory(tmp_path / "a" / "run")
    directory.start(CONFIG, resolved={"method": "PPO+REVD", "schedule": dict, "big": float("inf")}, steps=0)
    return directory


def test_a_new_run_says_what_it_is(run):
    config = json.loads(run.config.read_text())
    assert config.pop("resolved") == {"method": "PPO+REVD", "schedule": "dict", "big": None}
    assert TrainConfig.from_dict(config) == CONFIG
    described = json.loads(run.run.read_text())
    assert described["state"] == "running"
    assert described["repeat"] == CONFIG.command()
    assert {"revd", "torch", "numpy", "gymnasium", "stable-baselines3"} <= described["versions"].keys()
    assert run.read_status() == Status(state="running", total_steps=100)


def test_a_run_ends_in_both_files(run):
    run.finish(Status(state="failed", steps=5, error="ValueError: no"))
    described = json.loads(run.run.read_text())
    assert (described["state"], described["error"]) == ("failed", "ValueError: no")
    assert described["started"] <= described["finished"]
    assert run.read_status() == Status(state="failed", steps=5, error="ValueError: no")


def test_another_training_is_refused(run):
    before = run.config.read_text()
    with pytest.raises(FileExistsError, match=r"already holds a run.*seed is 0 there and 3 here.*--output"):
        RunDirectory(run.path).open(replace(CONFIG, seed=3))
    assert run.config.read_text() == before


def test_the_same_training_is_let_in_however_it_runs(run):
    RunDirectory(run.path).open(replace(CONFIG, steps=200, threads=2, device="cpu", output=run.path))
    assert run.read_config() == CONFIG


def test_finished_means_finished_after_enough_steps(run):
    assert not run.is_finished(100)
    run.finish(Status(state="finished", steps=128, total_steps=100))
    assert run.is_finished(100)
    assert not run.is_finished(101), "the same command with more steps goes on"


def test_sessions_are_listed(run):
    run.finish(Status(state="failed", steps=64, error="killed"))
    run.start(CONFIG, resolved={}, steps=50)
    described = json.loads(run.run.read_text())
    assert described["state"] == "running"
    assert described["error"] is None
    assert [session["steps"] for session in described["resumed"]] == [50]
    assert run.read_status() == Status(state="running", steps=50, total_steps=100)


def test_a_directory_without_a_run_can_be_used(tmp_path):
    (tmp_path / "log.txt").write_text("from the launcher")
    directory = RunDirectory(tmp_path)
    directory.open(CONFIG)
    assert directory.read_config() is None


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="is a file"):
        RunDirectory(tmp_path / "file").open(CONFIG)


def test_no_status_yet(tmp_path):
    assert RunDirectory(tmp_path).read_status() is None


def test_json_is_strict(tmp_path):
    write_json(tmp_path / "x.json", {"nan": float("nan"), "nested": [{"inf": float("-inf")}, (1, True)]})
    text = (tmp_path / "x.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text) == {"nan": None, "nested": [{"inf": None}, [1, True]]}


def git(*words):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y.z", *words], check=True, capture_output=True)


def test_the_working_tree_is_described(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert describe_software()["git"] == {"commit": None, "dirty": None}
    git("init")
    (tmp_path / "file").write_text("")
    assert describe_software()["git"] == {"commit": None, "dirty": True}
    git("add", "file")
    git("commit", "-m", "first")
    clean = describe_software()["git"]
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False


def test_without_git_nothing_is_known(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert describe_software()["git"] == {"commit": None, "dirty": None}


def test_packages_that_are_not_there_are_left_out(monkeypatch):
    monkeypatch.setattr("revd.experiments.rundir._PACKAGES", ("torch", "no-such-package"))
    assert list(describe_software()["versions"]) == ["torch"]
