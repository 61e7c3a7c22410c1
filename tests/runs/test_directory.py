import json
import os
import subprocess
from dataclasses import fields, replace
from pathlib import Path

import pytest

import revd
from revd.runs.config import TrainConfig
from revd.runs.directory import (
    RunDirectory,
    Status,
    describe_software,
    write_json,
)
from tests.runs.test_config import FULL

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


def test_a_status_says_where_the_time_went_and_one_of_before_need_not(run):
    status = Status(state="finished", steps=5, seconds={"environment": 2.5, "update": 1})
    run.write_status(status)
    assert run.read_status() == status
    written = json.loads(run.status.read_text())
    del written["seconds"]
    run.status.write_text(json.dumps(written))
    assert run.read_status() == replace(status, seconds=None)


def test_a_run_ends_in_both_files(run):
    run.finish(Status(state="failed", steps=5, error="ValueError: no"))
    described = json.loads(run.run.read_text())
    assert (described["state"], described["error"]) == ("failed", "ValueError: no")
    assert described["started"] <= described["finished"]
    assert run.read_status() == Status(state="failed", steps=5, error="ValueError: no")


def test_another_training_is_refused(run):
    before = run.config.read_text()
    with pytest.raises(FileExistsError, match=r"already holds a run.*seed is 0 there and 3 here.*--output"):
        RunDirectory(run.path).check(replace(CONFIG, seed=3))
    assert run.config.read_text() == before


#: May differ between two sessions of one run. Decide for each new field of the config whether it belongs here.
HOW_IT_RUNS = (
    "output", "steps", "engine", "device", "trainer", "threads", "emulator_threads", "checkpoint_every",
    "eval_every", "eval_episodes",
)  # fmt: skip
#: Values for fields without a default, or whose default does not fit the rest of `FULL`.
OTHER = {"task": "CartPole-v1", "init_from": Path("a third/run")}


def full(name):
    """`FULL`, where no field has its default, with the field `name` set to its default."""
    others = {
        "network": {"batch_norm": "off"},
        "strength": {"weight": "auto", "strength": 0.5},
        "yield_to_task": {"weight": "auto", "yield_to_task": False},
    }
    return replace(FULL, **others.get(name, {}))


def changed(name):
    """`full` with another value of one field."""
    value = OTHER.get(name, getattr(TrainConfig(task="CartPole-v1"), name))
    assert value != getattr(full(name), name)
    return replace(full(name), **{name: value})


@pytest.mark.parametrize("name", [entry.name for entry in fields(TrainConfig) if entry.name not in HOW_IT_RUNS])
def test_every_setting_of_a_training_must_be_as_before(tmp_path, name):
    directory = RunDirectory(tmp_path / "run")
    directory.start(full(name), resolved={}, steps=0)
    with pytest.raises(FileExistsError, match=rf"other settings \({name} is [^;]* there and [^;]* here[;)].* choose"):
        directory.check(changed(name))


@pytest.mark.parametrize("name", HOW_IT_RUNS)
def test_how_a_training_runs_may_change(tmp_path, name):
    directory = RunDirectory(tmp_path / "run")
    directory.start(FULL, resolved={}, steps=0)
    directory.check(changed(name))
    assert directory.read_config() == FULL


@pytest.mark.parametrize("name", ["config", "run", "status"])
def test_a_fifo_in_a_files_place_does_not_hang(tmp_path, name):
    directory = RunDirectory(tmp_path)
    os.mkfifo(getattr(directory, name))
    if name == "config":
        with pytest.raises(ValueError, match=r"config\.json' is damaged .*is a FIFO; it must be a file"):
            directory.check(CONFIG)
    else:
        assert directory.read_status() is None
        assert not directory.is_finished(1)


def test_finished_means_finished_after_enough_steps(run):
    assert not run.is_finished(100)
    run.finish(Status(state="finished", steps=128, total_steps=100))
    assert run.is_finished(100)
    assert not run.is_finished(101), "the same command with more steps resumes"


def test_sessions_are_listed(run):
    run.finish(Status(state="failed", steps=64, error="killed"))
    run.start(CONFIG, resolved={}, steps=50)
    described = json.loads(run.run.read_text())
    assert described["state"] == "running"
    assert described["error"] is None
    assert [session["steps"] for session in described["resumed"]] == [50]
    assert run.read_status() == Status(state="running", steps=50, total_steps=100)


def test_a_run_that_ends_well_in_the_end_keeps_no_traceback(run):
    run.finish(Status(state="failed", steps=64, error="ValueError: no"), traceback="Traceback …\nValueError: no")
    assert json.loads(run.run.read_text())["traceback"] == ["Traceback …", "ValueError: no"]
    run.start(CONFIG, resolved={}, steps=50)
    assert not {"traceback", "finished"} & json.loads(run.run.read_text()).keys(), "it has not ended"
    run.finish(Status(state="finished", steps=100))
    described = json.loads(run.run.read_text())
    assert (described["state"], described["error"]) == ("finished", None)
    assert "traceback" not in described


def test_a_directory_without_a_run_can_be_used(tmp_path):
    (tmp_path / "log.txt").write_text("from the launcher")
    directory = RunDirectory(tmp_path)
    directory.check(CONFIG)
    assert directory.read_config() is None


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="is a file"):
        RunDirectory(tmp_path / "file").check(CONFIG)


def test_no_status_yet(tmp_path):
    assert RunDirectory(tmp_path).read_status() is None


@pytest.mark.parametrize(
    "change",
    [
        {"total_steps": None}, {"steps": "5"}, {"steps": True}, {"steps": -1}, {"steps": 10**30}, {"state": []},
        {"error": 5}, {"bonus_share": "x"}, {"episode_return": [1]}, {"steps_per_second": 10**400}, {"other": 1},
        {"seconds": 5}, {"seconds": [1.0]}, {"seconds": {"update": "1"}}, {"seconds": {"update": True}},
    ],
)  # fmt: skip
def test_a_status_of_other_types_is_none(run, change):
    run.finish(Status(state="finished", steps=100, total_steps=100))
    assert run.is_finished(100)
    run.status.write_text(json.dumps({**json.loads(run.status.read_text()), **change}))
    assert run.read_status() is None
    assert not run.is_finished(100)


@pytest.mark.parametrize("text", ["[" * 100_000, "5" * 10_000])
def test_files_that_no_parser_likes_are_damaged(run, text):
    for path in (run.status, run.run, run.config):
        path.write_text(text)
    assert run.read_status() is None
    with pytest.raises(ValueError, match=r"config\.json' is damaged"):
        run.check(CONFIG)
    run.start(CONFIG, resolved={}, steps=0)
    assert run.read_config() == CONFIG


def test_directories_in_the_place_of_files(run):
    for path in (run.status, run.config):
        path.unlink()
        path.mkdir()
    assert run.read_status() is None
    with pytest.raises(ValueError, match=r"config\.json' is damaged or describes no training"):
        run.check(CONFIG)


@pytest.mark.parametrize("sessions", [5, {"a": 1}, None, "text"])
def test_sessions_that_are_no_list_are_dropped(run, sessions):
    write_json(run.run, {**json.loads(run.run.read_text()), "resumed": sessions})
    run.start(CONFIG, resolved={}, steps=50)
    assert [session["steps"] for session in json.loads(run.run.read_text())["resumed"]] == [50]


def test_json_is_strict(tmp_path):
    write_json(tmp_path / "x.json", {"nan": float("nan"), "nested": [{"inf": float("-inf")}, (1, True)]})
    text = (tmp_path / "x.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text) == {"nan": None, "nested": [{"inf": None}, [1, True]]}


def git(*words):
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@y.z", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_working_tree_is_described(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert describe_software()["git"] == {"commit": None}
    git("init")
    (tmp_path / "file").write_text("")
    assert describe_software()["git"] == {"commit": None}
    git("add", "file")
    git("commit", "-m", "first")
    assert describe_software()["git"] == {"commit": git("rev-parse", "HEAD")}


def test_what_a_repository_would_have_git_execute_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    git("init")
    (tmp_path / "file").write_text("")
    (tmp_path / ".gitattributes").write_text("* filter=mark\n")
    git("add", "file", ".gitattributes")
    git("commit", "-m", "first")
    for name in ("core.fsmonitor", "filter.mark.clean", "core.pager", "core.sshCommand"):
        git("config", name, f"touch '{tmp_path}/executed'; false")
    (tmp_path / "file").write_text("changed")
    assert len(describe_software()["git"]["commit"]) == 40
    assert not (tmp_path / "executed").exists()


def test_without_git_nothing_is_known(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert describe_software()["git"] == {"commit": None}


def test_packages_that_are_not_there_are_left_out(monkeypatch):
    monkeypatch.setattr("revd.runs.directory._PACKAGES", ("torch", "no-such-package"))
    assert list(describe_software()["versions"]) == ["revd", "torch"]
    assert describe_software()["versions"]["revd"] == revd.__version__, "that of the source, installed or not"
