"""Failed trials, failed searches, and resuming them."""

import errno
import json
import os
from dataclasses import replace

import pytest

from revd.runs.directory import RunDirectory
from revd.suites.launchers.local import WORKER
from revd.tuning import driver
from revd.tuning.driver import MAX_CONSECUTIVE_FAILURES, SearchFailedError, tune
from tests.support.fake_runs import FakeLauncher
from tests.support.fake_searches import earns, run, search


def broken(config):
    return "the disk is full"


def number(config):
    return int(config.directory.parent.name)


def begun(launcher):
    return sorted({number(config) for config in launcher.started})


def failing(config, launcher):
    with pytest.raises(SearchFailedError) as error:
        run(config, launcher=launcher)
    return error.value


def test_a_failing_trial_does_not_affect_the_others(tmp_path):
    def breaks(config):
        return "environment 1 broke" if config.weight > 1 else None

    launcher = FakeLauncher(earns, breaks=breaks)
    records = run(search(tmp_path), launcher=launcher)
    failed = [one for one in records if one.state == "failed"]
    assert failed
    assert all(one.values["weight"] > 1 and one.error == "environment 1 broke" for one in failed)
    assert {one.state for one in records if one.values["weight"] <= 1} <= {"finished", "pruned"}
    starts = [config.directory.parent.name for config in launcher.started]
    assert all(starts.count(f"{one.number:04d}") == 2 for one in failed), "each was tried again once"
    assert ",failed," in (tmp_path / "results.csv").read_text()


def test_consecutive_failures_end_the_search(tmp_path):
    launcher = FakeLauncher(earns, breaks=lambda config: "the disk is full")
    with pytest.raises(
        SearchFailedError, match=f"{MAX_CONSECUTIVE_FAILURES} consecutive trials failed.* the disk is full; fix"
    ):
        run(search(tmp_path, trials=100, retries=0), launcher=launcher)
    assert len(launcher.started) == MAX_CONSECUTIVE_FAILURES
    assert len(run(search(tmp_path, trials=7))) == 7


def test_runs_that_cannot_be_started_fail(tmp_path):
    class Full:
        def start(self, config):
            raise OSError("no room")

    with pytest.raises(SearchFailedError, match="cannot be started: no room"):
        tune(search(tmp_path), watch=lambda records: None, launcher=Full(), interval=0)


def test_without_an_episode_there_is_no_score(tmp_path):
    (record,) = run(search(tmp_path, trials=1), launcher=FakeLauncher(lambda config, part: None))
    assert record.error == "no episode ended within 1,000 steps; use more --steps and another --output"


def test_a_run_that_was_interrupted_by_others_has_failed(tmp_path):
    launcher = FakeLauncher(earns)

    def watch(records):
        for attempt in launcher.attempts:
            attempt.ask_to_stop()

    (record,) = tune(search(tmp_path, trials=1, retries=0), watch=watch, launcher=launcher, interval=0)
    assert (record.state, record.error) == ("failed", "it was interrupted")


def test_the_same_command_resumes_failed_trials(tmp_path):
    config = search(tmp_path, trials=4)
    failed = run(config, launcher=FakeLauncher(earns, breaks=broken))
    assert [(one.state, one.steps) for one in failed] == [("failed", 300)] * 4
    launcher = FakeLauncher(earns)
    records = run(config, launcher=launcher)
    assert [one.state for one in records] == ["finished"] * 4
    assert begun(launcher) == [0, 1, 2, 3]
    for one in range(4):
        sessions = json.loads(RunDirectory(tmp_path / f"trials/{one:04d}/seed0").run.read_text())["resumed"]
        assert sessions[-1]["steps"] == 300, "it resumes from its checkpoint"
    assert ",failed," not in (tmp_path / "results.csv").read_text()


def test_repeats_begin_no_new_trials_while_all_fail(tmp_path):
    config = search(tmp_path, trials=100, retries=0)
    for _ in range(3):
        launcher = FakeLauncher(earns, breaks=broken)
        error = failing(config, launcher)
        assert begun(launcher) == [one.number for one in error.records] == list(range(MAX_CONSECUTIVE_FAILURES))
        assert {one.state for one in error.records} == {"failed"}


def test_a_cause_that_came_later_costs_a_repeat_one_new_trial(tmp_path):
    config = search(tmp_path, trials=100, retries=0)
    for last in (7, 8, 9):
        launcher = FakeLauncher(earns, breaks=lambda config: "the disk is full" if number(config) > 2 else None)
        failing(config, launcher)
        assert max(begun(launcher)) == last


def test_values_that_never_work_do_not_stop_a_search(tmp_path):
    def breaks(config):
        return "it has diverged" if number(config) % 2 else None

    config = search(tmp_path, trials=2 * MAX_CONSECUTIVE_FAILURES, retries=0, prune=False)
    run(config, launcher=FakeLauncher(earns, breaks=breaks))
    launcher = FakeLauncher(earns, breaks=breaks)
    records = run(replace(config, trials=config.trials + 2), launcher=launcher)
    assert [one.number for one in records if one.state == "failed"] == list(range(1, 12, 2))
    assert begun(launcher) == [1, 3, 5, 7, 9, 10, 11]


@pytest.mark.parametrize("name", ["study.json", "study.journal", "results.csv"])
def test_a_full_disk_names_the_file_and_the_same_command_resumes(tmp_path, monkeypatch, name):
    def fsync(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(name):
            raise OSError(errno.ENOSPC, "No space left on device")

    launcher = FakeLauncher(earns, at_once=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(SearchFailedError, match=rf"is full: .*{tmp_path / name}'; .* the same command to resume"):
            tune(search(tmp_path), watch=lambda records: None, launcher=launcher, interval=0)
    assert not launcher.running
    assert len(run(search(tmp_path))) == 8


def test_other_file_errors_are_raised(tmp_path, monkeypatch):
    def write_results(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(driver, "write_results", write_results)
    with pytest.raises(PermissionError, match=r"Permission denied: '.*results\.csv'"):
        run(search(tmp_path))


def test_workers_wait_for_the_workers_of_a_killed_driver(tmp_path, monkeypatch):
    commands = []

    class Recording:
        def __init__(self, worker):
            commands.append(tuple(worker))

        def start(self, config):
            return FakeLauncher(earns, at_once=True).start(config)

    monkeypatch.setattr(driver, "LocalLauncher", Recording)
    tune(search(tmp_path, trials=1), watch=lambda records: None, interval=0)
    assert commands == [(*WORKER, "--wait", "120.0")]
