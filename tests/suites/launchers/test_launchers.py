"""What every launcher promises: the same tests for all launchers."""

import json
import os
import signal
from contextlib import ExitStack
from dataclasses import replace

import pytest
from stable_baselines3 import PPO

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, Status
from revd.runs.parameters import Parameters
from revd.runs.train import train
from revd.suites.launchers.local import LocalLauncher
from revd.suites.scheduler import train_all
from tests.support.fake_worker import COMMAND
from tests.support.processes import alive

LAUNCHERS = ["local", "ray", "ray-fetch"]


@pytest.fixture(scope="module")
def started():
    """Which launchers have what they need."""
    return {}


@pytest.fixture
def opened():
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=LAUNCHERS)
def open_launcher(request, started):
    """A function that makes the launcher, with a worker of the test's own or the real one."""
    if request.param == "local":
        return lambda **worker: LocalLauncher(**worker)
    if "ray" not in started:
        started["ray"] = request.getfixturevalue("make_cluster")(4)
    from revd.suites.launchers.ray import RayLauncher

    return lambda **worker: request.getfixturevalue("opened").enter_context(
        RayLauncher(fetch=request.param == "ray-fetch", **worker)
    )


@pytest.fixture
def launcher(open_launcher):
    return open_launcher(worker=COMMAND)


def configs(tmp_path, *tasks):
    return [TrainConfig(task=task, steps=10, output=tmp_path / f"{index}-{task}") for index, task in enumerate(tasks)]


def ignore(runs):
    """A watch that ignores what it is shown."""


def run_all(every, launcher, **options):
    return train_all(every, **{"jobs": 4, "watch": ignore, "interval": 0.02, "launcher": launcher, **options})


def test_runs_are_watched_and_a_failing_one_stops_no_other(tmp_path, launcher):
    seen = []
    runs = run_all(configs(tmp_path, "fine", "wrong", "killed"), launcher, jobs=2, watch=seen.append)
    assert [(run.status.state, run.status.error) for run in runs] == [
        ("finished", None),
        ("failed", "ValueError: wrong config"),
        ("failed", "killed by SIGKILL"),
    ]
    assert seen[-1] == runs
    assert [run.status.state for run in seen[0]][2:] == ["waiting"]
    assert any(look[0].status.state == "running" for look in seen)
    fine, wrong, killed = (RunDirectory(run.config.directory) for run in runs)
    assert fine.log.read_text() == "threads 1\n"
    assert not wrong.config.exists(), "a wrong config leaves only its log, and can be corrected and tried again"
    assert "wrong config" in wrong.log.read_text()
    assert killed.read_status().state == "failed", "the file of a killed run no longer says running"
    assert json.loads(killed.run.read_text())["error"] == "killed by SIGKILL"


def test_terminated_runs_can_be_resumed(tmp_path, launcher):
    every = configs(tmp_path, "endless", "fine")
    before = signal.getsignal(signal.SIGTERM)

    def terminate(runs):
        if runs[0].status.state == "running" and (every[0].directory / "status.json").exists():
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        run_all(every, launcher, jobs=1, watch=terminate)
    assert signal.getsignal(signal.SIGTERM) is before
    directory = RunDirectory(every[0].directory)
    assert (directory.read_status().state, directory.read_status().steps) == ("interrupted", 5)
    assert not alive(int((directory.path / "pid").read_text()))
    assert not every[1].directory.exists()


def test_failed_runs_are_restarted_and_finished_ones_are_not(tmp_path, launcher):
    every = configs(tmp_path, "second-time")
    (first,) = run_all(every, launcher)
    assert (first.status.state, first.status.error) == ("failed", "not yet")
    seen = []
    (second,) = run_all(every, launcher, watch=seen.append)
    assert second.status.state == "finished"
    assert not any(look[0].status.state == "failed" for look in seen), "what an earlier session said is not shown"
    (third,) = run_all(every, launcher, retries=1)
    assert third.status.state == "finished"
    assert (every[0].directory / "log.txt").read_text().count("threads") == 2


def test_a_refused_directory_fails_only_its_run(tmp_path, launcher):
    every = configs(tmp_path, "a", "b")
    every[0].directory.mkdir()
    (every[0].directory / "log.txt").symlink_to(tmp_path / "victim")
    every[1].directory.mkdir()
    RunDirectory(every[1].directory).write_status(Status(state="finished", total_steps=10))
    runs = run_all(every, launcher)
    assert [run.status.state for run in runs] == ["failed", "finished"]
    assert runs[0].status.error.startswith("cannot be started: ")
    assert "is a symbolic link" in runs[0].status.error
    assert not (tmp_path / "victim").exists()


def test_the_real_worker_resumes_a_training(tmp_path, open_launcher):
    """It was begun in this process; `test_node_loss.py` and `test_a_real_demo_in_short` begin some in workers."""
    config = TrainConfig(
        task="CartPole-v1", steps=64, n_envs=2, output=tmp_path / "run", algo_params=Parameters(n_steps=32)
    )
    train(config)
    longer = replace(config, steps=128)
    (run,) = run_all([longer], open_launcher())
    assert (run.status.state, run.status.error, run.status.steps) == ("finished", None, 128)
    directory = RunDirectory(config.directory)
    assert PPO.load(directory.model, device="cpu").num_timesteps == 128
    assert directory.read_config() == longer, "also where it was trained elsewhere"
    told = json.loads(directory.run.read_text())
    assert told["repeat"] == longer.command(), "the longer run, and where it was asked for"
    assert [session["steps"] for session in told["resumed"]] == [64]
    assert directory.progress.read_text().count("\n") == 3
