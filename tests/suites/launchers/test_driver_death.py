"""The launcher is killed without a chance to clean up: its runs end with it, wherever they are."""

import os
import subprocess
import sys
import time

import pytest

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.suites.launchers.local import LocalLauncher
from revd.suites.scheduler import train_all
from tests.support.fake_worker import COMMAND
from tests.support.processes import alive

DRIVER = """
import sys
from revd.runs.config import TrainConfig
from revd.suites.scheduler import train_all
from tests.support.fake_worker import COMMAND

config, address = TrainConfig.from_json(sys.argv[1]), sys.argv[2]
if address:
    from revd.suites.launchers.ray import RayLauncher
    with RayLauncher(address=address, worker=COMMAND) as launcher:
        train_all([config], jobs=1, watch=lambda runs: None, launcher=launcher)
else:
    from revd.suites.launchers.local import LocalLauncher
    train_all([config], jobs=1, watch=lambda runs: None, launcher=LocalLauncher(COMMAND))
"""


@pytest.mark.parametrize("place", ["local", "ray"])
def test_runs_end_with_their_launcher_and_can_be_resumed(tmp_path, request, place):
    address = "" if place == "local" else request.getfixturevalue("make_cluster")(1)[0].address
    config = TrainConfig(task="endless", steps=10, output=tmp_path / "run")
    mark = config.directory / "pid"
    driver = subprocess.Popen(
        [sys.executable, "-P", "-c", DRIVER, config.to_json(), address],
        cwd=make_trap(tmp_path),
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    try:
        await_that(lambda: mark.exists() and mark.read_text(), driver)
        driver.kill()
        await_that(lambda: not alive(int(mark.read_text())))
    finally:
        driver.kill()
        driver.wait()
    assert not (tmp_path / "executed").exists(), "nothing is imported from the current directory"
    if place == "local":
        # Through the pipe to it. Ray may be quicker, and kills all that an actor has started.
        assert RunDirectory(config.directory).read_status().state == "interrupted"
    go_on(config, mark)


def go_on(config, mark):
    """Start the run again, and interrupt it once it has begun."""
    first = mark.read_text()

    def interrupt(runs):
        if mark.read_text() not in ("", first):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_all([config], jobs=1, watch=interrupt, interval=0.02, launcher=LocalLauncher(COMMAND))
    assert RunDirectory(config.directory).read_status().state == "interrupted"


def make_trap(tmp_path):
    """A directory whose modules leave a file when they are imported."""
    trap = tmp_path / "trap"
    (trap / "revd").mkdir(parents=True)
    (trap / "revd" / "__init__.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    return trap


def await_that(happened, driver=None):
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline
        assert driver is None or driver.poll() is None
        time.sleep(0.05)
