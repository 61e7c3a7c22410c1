import io
import os
import runpy
import signal
import time

import pytest

from revd.experiments import worker
from revd.experiments.config import TrainConfig


def test_the_worker_reads_its_config_and_turns_termination_into_an_interrupt(monkeypatch, tmp_path):
    config = TrainConfig(task="CartPole-v1", output=tmp_path / "run")
    trained = []

    def train(given):
        trained.append(given)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("revd.experiments.run.train", train)
    monkeypatch.setattr("threading.Thread.start", lambda thread: None)
    monkeypatch.setattr("sys.stdin", io.StringIO(config.to_json() + "\n"))
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
