import io
import os
import runpy
import signal
import time

import pytest

from revd.runs import worker
from revd.runs.config import TrainConfig


def test_the_worker_reads_its_config_and_turns_termination_into_an_interrupt(monkeypatch, tmp_path):
    config = TrainConfig(task="CartPole-v1", output=tmp_path / "run")
    trained = []

    def train(run, given):
        trained.append(given)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("revd.runs.train.train_in", train)
    monkeypatch.setattr("threading.Thread.start", lambda thread: None)
    monkeypatch.setattr("sys.stdin", io.StringIO(config.to_json() + "\n"))
    monkeypatch.setattr("sys.argv", ["worker"])
    try:
        with pytest.raises(KeyboardInterrupt):
            runpy.run_path(worker.__file__, run_name="__main__")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert trained == [config]


def test_the_end_of_the_launcher_ends_the_worker(monkeypatch):
    signals = []
    monkeypatch.setattr("os.kill", lambda process, number: signals.append((process, number)))
    monkeypatch.setattr("sys.stdin", io.StringIO("a line\nanother\n"))
    worker._end_with_launcher()
    assert signals == [(os.getpid(), signal.SIGTERM)]


def train_with(monkeypatch, config, *words, train):
    monkeypatch.setattr("revd.runs.train.train_in", train)
    monkeypatch.setattr("threading.Thread.start", lambda thread: None)
    monkeypatch.setattr("sys.stdin", io.StringIO(config.to_json() + "\n"))
    monkeypatch.setattr("sys.argv", ["worker", *words])
    worker.main()


def test_a_run_can_be_kept_in_another_directory(monkeypatch, tmp_path):
    config = TrainConfig(task="CartPole-v1", output=tmp_path / "run")
    trained = []
    words = ("--directory", str(tmp_path / "there"))
    train_with(monkeypatch, config, *words, train=lambda run, given: trained.append((run.path, given)))
    assert trained == [(tmp_path / "there", config)]


def test_a_run_that_another_has_is_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(worker, "SECONDS_BETWEEN_TRIES", 0.0)
    config = TrainConfig(task="CartPole-v1", output=tmp_path / "run")
    tries = []

    def train(run, given):
        tries.append(given)
        if len(tries) < 3:
            raise FileExistsError("another process is training")

    with pytest.warns(UserWarning, match="another process is training; trying again"):
        train_with(monkeypatch, config, "--wait", "60", train=train)
    assert tries == [config] * 3


def test_without_waiting_a_run_that_another_has_is_refused(monkeypatch, tmp_path):
    def train(run, given):
        raise FileExistsError("another process is training")

    with pytest.raises(FileExistsError):
        train_with(monkeypatch, TrainConfig(task="CartPole-v1", output=tmp_path / "run"), train=train)
