import json
import re
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import pairwise

import pytest

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, Status
from revd.runs.parameters import Parameters
from revd.suites.launchers.local import WORKER as REAL_WORKER
from revd.suites.launchers.local import LocalLauncher
from revd.suites.scheduler import train_all
from tests.support.fake_worker import COMMAND
from tests.support.processes import alive

LOCAL = LocalLauncher(COMMAND)


def configs(tmp_path, *tasks):
    return [TrainConfig(task=task, steps=10, output=tmp_path / f"{index}-{task}") for index, task in enumerate(tasks)]


def ignore(runs):
    """A watch that ignores what it is shown."""


def test_all_runs_end_and_are_watched(tmp_path):
    seen = []
    runs = train_all(configs(tmp_path, "a", "b", "c"), jobs=2, watch=seen.append, interval=0.02, launcher=LOCAL)
    assert [run.status.state for run in runs] == ["finished"] * 3
    assert seen[-1] == runs
    states = [[run.status.state for run in look] for look in seen]
    assert states[0] == ["running", "running", "waiting"]
    assert ["finished", "finished", "running"] in states


def test_no_more_than_so_many_at_a_time(tmp_path):
    every = configs(tmp_path, "a", "b", "c")
    train_all(every, jobs=1, watch=ignore, interval=0.02, launcher=LOCAL)
    times = [json.loads((config.directory / "times.json").read_text()) for config in every]
    assert all(before[1] <= after[0] for before, after in pairwise(times))


def test_an_interrupt_ends_the_workers(tmp_path):
    every = configs(tmp_path, "endless", "endless", "fine")

    def interrupt(runs):
        if all((config.directory / "pid").exists() for config in every[:2]):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_all(every, jobs=2, watch=interrupt, interval=0.02, launcher=LOCAL)
    pids = [int((config.directory / "pid").read_text()) for config in every[:2]]
    assert not any(alive(pid) for pid in pids)
    assert not every[2].directory.exists()


def test_a_worker_that_does_not_listen_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("revd.suites.launchers.local.SECONDS_TO_STOP", 0.1)
    (config,) = configs(tmp_path, "stubborn")

    def interrupt(runs):
        if (config.directory / "deaf").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_all([config], jobs=1, watch=interrupt, interval=0.02, launcher=LOCAL)
    assert not alive(int((config.directory / "pid").read_text()))


def test_other_threads_can_launch_too(tmp_path):
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(
            train_all(configs(tmp_path, "fine"), jobs=1, watch=ignore, interval=0.02, launcher=LOCAL)
        )
    )
    thread.start()
    thread.join()
    assert [run.status.state for run in found] == ["finished"]


def test_wrong_use_is_refused_before_anything_starts(tmp_path):
    every = configs(tmp_path, "a", "b")
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"):
        train_all(every, jobs=0, watch=ignore)
    with pytest.raises(ValueError, match="two of the runs have the same output"):
        train_all([every[0], every[0]], jobs=1, watch=ignore)
    with pytest.raises(ValueError, match="retries must be at least 0, got -1"):
        train_all(every, jobs=1, watch=ignore, retries=-1)
    RunDirectory(every[1].directory).start(replace(every[1], seed=9), resolved={}, steps=0)
    with pytest.raises(FileExistsError, match="already holds a run with other settings"):
        train_all(every, jobs=1, watch=ignore)
    assert not every[0].directory.exists()


def test_a_run_that_has_not_started_is_waiting(tmp_path):
    seen = []
    train_all(configs(tmp_path, "a", "b"), jobs=1, watch=seen.append, interval=0.02, launcher=LOCAL)
    assert seen[0][1].status == Status(state="waiting", total_steps=10)


def test_a_worker_that_never_reads_its_config_fails_only_its_run(tmp_path):
    large = Parameters(policy_kwargs={"name": "x" * 1_000_000})
    config = TrainConfig(task="a", output=tmp_path / "run", algo_params=large)
    worker = (sys.executable, "-c", "raise SystemExit('cannot start')")
    (run,) = train_all([config], jobs=1, watch=ignore, interval=0.02, launcher=LocalLauncher(worker))
    assert (run.status.state, run.status.error) == ("failed", "cannot start")


def test_a_run_that_is_live_elsewhere_is_not_touched(tmp_path):
    (config,) = configs(tmp_path, "wrong")
    directory = RunDirectory(config.directory)
    directory.start(config, resolved={}, steps=0)
    before = (directory.status.read_text(), directory.run.read_text())
    with directory.locked():
        (run,) = train_all([config], jobs=1, watch=ignore, interval=0.02, launcher=LOCAL)
    assert run.status.state == "failed"
    assert (directory.status.read_text(), directory.run.read_text()) == before


def test_a_worker_imports_nothing_from_the_current_directory(tmp_path):
    mark = tmp_path / "executed"
    (tmp_path / "revd").mkdir()
    for name in ("json.py", "torch.py", "revd/__init__.py", "sitecustomize.py"):
        (tmp_path / name).write_text(f"open({str(mark)!r}, 'w')")
    answer = subprocess.run(REAL_WORKER, input="{}\n", cwd=tmp_path, capture_output=True, text=True)
    assert "task" in answer.stderr, "it got as far as reading its config"
    assert not mark.exists()


@pytest.mark.parametrize("name", ["log.txt", "status.json", "checkpoints"])
def test_links_are_refused_before_anything_is_written(tmp_path, name):
    every = configs(tmp_path, "a", "b")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    every[0].directory.mkdir()
    (every[0].directory / name).symlink_to(victim)
    runs = train_all(every, jobs=1, watch=ignore, interval=0.02, launcher=LOCAL)
    assert [run.status.state for run in runs] == ["failed", "finished"]
    assert "is a symbolic link" in runs[0].status.error
    assert victim.read_text() == "mine"


def test_a_link_that_comes_later_is_not_followed_either(tmp_path, monkeypatch):
    (config,) = configs(tmp_path, "a")
    config.directory.mkdir()
    (config.directory / "log.txt").symlink_to(tmp_path / "victim")
    monkeypatch.setattr(RunDirectory, "refuse_links", lambda directory: None)
    (run,) = train_all([config], jobs=1, watch=ignore, interval=0.02, launcher=LOCAL)
    assert "cannot be started" in run.status.error
    assert not (tmp_path / "victim").exists()


def damage(directory, how):
    directory.mkdir()
    if how == "config":
        (directory / "config.json").write_text("{")
    elif how == "types":
        (directory / "status.json").write_text('{"state": "finished", "total_steps": null}')
    else:
        (directory / how).mkdir()


@pytest.mark.parametrize(
    ("how", "state", "error"),
    [
        ("config", "failed", r"cannot be started: .*config\.json' is damaged or describes no training"),
        ("config.json", "failed", r"cannot be started: .*config\.json' is damaged or describes no training"),
        ("log.txt", "failed", r"cannot be started: .*Is a directory"),
        ("status.json", "failed", r"Is a directory"),
        ("types", "finished", ""),
    ],
)
def test_a_damaged_directory_fails_only_its_run(tmp_path, how, state, error):
    every = configs(tmp_path, "a", "b")
    damage(every[0].directory, how)
    runs = train_all(every, jobs=1, watch=ignore, retries=1, interval=0.02, launcher=LOCAL)
    assert [run.status.state for run in runs] == [state, "finished"]
    assert re.search(error, runs[0].status.error or "")


def test_a_deleted_directory_fails_only_its_run(tmp_path):
    runs = train_all(configs(tmp_path, "deleted", "b"), jobs=1, watch=ignore, interval=0.02, launcher=LOCAL)
    assert [(run.status.state, run.status.error) for run in runs] == [("failed", "exit code 1"), ("finished", None)]


def test_signals_without_a_name_have_a_number(tmp_path):
    (run,) = train_all(configs(tmp_path, "nameless"), jobs=1, watch=ignore, interval=0.02, launcher=LOCAL)
    assert run.status.error == "killed by signal 40"


def test_failed_runs_are_retried_a_limited_number_of_times(tmp_path):
    every = configs(tmp_path, "second-time", "killed", "silent")
    runs = train_all(every, jobs=2, watch=ignore, retries=2, interval=0.02, launcher=LOCAL)
    assert [run.status.state for run in runs] == ["finished", "failed", "failed"]
    starts = [(config.directory / "log.txt").read_text().count("threads") for config in every]
    assert starts == [2, 3, 0]
    assert runs[2].status.error == "exit code 3"


class ScriptedAttempt:
    """Ends at once, in the given way."""

    running = queued = False

    def __init__(self, *, lost):
        self.lost = lost

    def end_reason(self):
        return "its node has died"

    def ask_to_stop(self):
        """It has ended."""

    stop = ask_to_stop


class ScriptedLauncher:
    """A number of attempts that are lost, then one that ends in the given way."""

    def __init__(self, losses, *, then="finished"):
        self.losses = losses
        self.then = then
        self.starts = 0

    def start(self, config):
        self.starts += 1
        lost = self.starts <= self.losses
        directory = RunDirectory(config.directory)
        directory.start(config, resolved={}, steps=0)
        if not lost:
            directory.finish(Status(state=self.then, total_steps=config.steps))
        return ScriptedAttempt(lost=lost)


def test_losses_are_not_counted_as_failures(tmp_path):
    launcher = ScriptedLauncher(3)
    seen = []
    (run,) = train_all(configs(tmp_path, "a"), jobs=1, watch=seen.append, interval=0, launcher=launcher)
    assert (run.status.state, launcher.starts) == ("finished", 4)
    assert [look[0].status.state for look in seen] == ["waiting"] * 3 + ["finished"]
    assert seen[0][0].status.error == "lost its machine, and resumes from its last checkpoint: its node has died"


def test_a_failure_after_losses_is_a_failure(tmp_path):
    launcher = ScriptedLauncher(2, then="failed")
    (run,) = train_all(configs(tmp_path, "a"), jobs=1, watch=ignore, interval=0, retries=1, launcher=launcher)
    assert (run.status.state, launcher.starts) == ("failed", 4), "two that were lost, one that failed, and its retry"


def test_a_run_that_is_lost_too_often_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("revd.suites.scheduler.MAX_LOSSES", 2)
    launcher = ScriptedLauncher(9)
    (run,) = train_all(configs(tmp_path, "a"), jobs=1, watch=ignore, interval=0, retries=5, launcher=launcher)
    assert (run.status.state, run.status.error, launcher.starts) == ("failed", "its node has died", 3)
