"""A full disk ends a run with a clear message and a checkpoint to resume from."""

import errno
import os
import re
import resource
import subprocess
import sys
from dataclasses import replace

import pytest

from revd import cli
from revd.runs import train as run_module
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.runs.train import RunFailedError, train
from revd.storage import atomic
from revd.suites.launchers.local import LocalLauncher
from revd.suites.scheduler import train_all

ROLLOUT = 32
SENTENCE = r"the disk of '.*run' is full: .*; the last checkpoint, after 64 steps, is kept: the same command resumes"


@pytest.fixture
def config(tmp_path):
    return TrainConfig(
        task="CartPole-v1",
        steps=4 * ROLLOUT,
        n_envs=2,
        output=tmp_path / "run",
        checkpoint_every=ROLLOUT,
        algo_params=Parameters(n_steps=ROLLOUT // 2, batch_size=ROLLOUT, n_epochs=1),
    )


def full_from(monkeypatch, name, *, healed=False):
    """From the first file of that name on, no file can be written; `healed`: only that one could not."""
    real = os.fsync
    state = {"full": False}

    def fsync(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path.endswith(name) or (state["full"] and not healed):
            state["full"] = True
            raise OSError(errno.ENOSPC, "No space left on device", path)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def leftovers(config):
    return [path for path in config.directory.rglob("*") if re.match(r"\.\d+\.", path.name)]


def test_the_run_fails_with_a_clear_message_and_resumes_later(config, monkeypatch):
    with monkeypatch.context() as patch:
        full_from(patch, "steps-000000000096.safetensors", healed=True)
        with pytest.raises(RunFailedError, match=SENTENCE):
            train(config)
    status = RunDirectory(config.directory).read_status()
    assert status.state == "failed"
    assert "No space left" in status.error
    assert "after 64 steps, is kept" in status.error
    assert leftovers(config) == []
    train(config)
    rows = (config.directory / "progress.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["32", "64", "96", "128"]


def test_where_not_even_the_status_can_be_written_the_error_is_still_the_first_one(config, monkeypatch):
    with monkeypatch.context() as patch:
        full_from(patch, "steps-000000000096.safetensors")
        with (
            pytest.warns(UserWarning, match=r"status\.json' still says that the run is running"),
            pytest.raises(RunFailedError, match=SENTENCE),
        ):
            train(config)
    assert RunDirectory(config.directory).read_status().state == "running"
    assert leftovers(config) == []
    train(config)
    assert RunDirectory(config.directory).read_status().state == "finished"


def test_a_disk_that_is_full_before_the_first_checkpoint(config, monkeypatch):
    full_from(monkeypatch, "steps-000000000032.safetensors", healed=True)
    with pytest.raises(RunFailedError, match="there is no checkpoint yet"):
        train(config)


def test_a_disk_that_is_full_before_anything_begins(config, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("revd.runs.lease._create", full)
    with pytest.raises(RunFailedError, match="there is no checkpoint yet"):
        train(config)
    assert list(config.directory.iterdir()) == []


def test_the_command_says_so_in_one_line_and_exits_with_one(config, monkeypatch, capsys):
    full_from(monkeypatch, "steps-000000000096.safetensors", healed=True)
    with pytest.raises(SystemExit) as error:
        cli.main([*config.command().split()[1:], "--no-progress"])
    assert error.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith(f"revd: the disk of '{config.directory}' is full: [Errno 28] No space left on device")
    assert said.count("\n") == 1


def test_the_kernel_refuses_the_bytes(config):
    """A limit on the size of files: the checkpoint fails where it is written, not where the test chooses."""
    train(replace(config, steps=2 * ROLLOUT))
    before = {path.name: path.read_bytes() for path in (config.directory / "checkpoints").iterdir()}
    answer = subprocess.run(
        [sys.executable, "-m", "revd", *config.command().split()[1:], "--no-progress"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64_000, 64_000)),
    )
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"revd: the disk of '{config.directory}' is full: [Errno 27] File too large")
    status = RunDirectory(config.directory).read_status()
    assert status.state == "failed"
    assert "after 64 steps, is kept" in status.error
    assert {path.name: path.read_bytes() for path in (config.directory / "checkpoints").iterdir()} == before
    train(config)
    assert RunDirectory(config.directory).read_status().state == "finished"


def test_in_a_suite_a_run_that_cannot_be_started_or_recorded_fails_alone(tmp_path):
    (tmp_path / "file").touch()
    blocked = TrainConfig(task="a", steps=10, output=tmp_path / "file" / "run")
    fine = TrainConfig(task="b", steps=10, output=tmp_path / "fine")
    fake = "import json, sys; c = json.loads(sys.stdin.readline()); open(c['output'] + '/done', 'w'); sys.exit('no')"
    worker = LocalLauncher((sys.executable, "-c", fake))
    runs = train_all([blocked, fine], jobs=1, watch=lambda runs: None, interval=0.02, launcher=worker)
    assert [run.status.state for run in runs] == ["failed", "failed"]
    assert "cannot be started: [Errno 20] Not a directory" in runs[0].status.error
    assert runs[1].status.error == "no"
    assert (fine.directory / "done").exists(), "the second was started all the same"


def test_other_errors_are_not_called_a_full_disk(config, monkeypatch):
    def broken(path, data):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("revd.storage.tensor_file.write_whole", broken)
    with pytest.raises(OSError, match="Input/output error"):
        train(config)
    assert RunDirectory(config.directory).read_status().error == "OSError: [Errno 5] Input/output error"
    assert not atomic.is_full_disk(OSError(errno.EIO, ""))
    assert run_module.one_line(OSError(errno.EIO, "")) == "OSError: [Errno 5]"
