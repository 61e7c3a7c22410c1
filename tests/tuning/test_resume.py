"""A search with real trainings, whose driver is killed."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from revd import cli
from revd.runs import lease
from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.tuning.config import TuneConfig
from revd.tuning.driver import tune
from revd.tuning.parameters import make_space
from tests.support.processes import ended, process_tree, until

pytestmark = pytest.mark.timeout(180)
TRIALS = 2


def arguments(output):
    return shlex.split(
        "tune --task CartPole-v1 --steps 1500 --n-envs 2 --algo-params n_steps=32 --checkpoint-every 128 "
        f"--trials {TRIALS} --jobs 2 --search weight k=4,5 --output {output}"
    )


def test_a_search_whose_driver_was_killed_is_resumed(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RESULT_COLUMNS", "120")
    process = subprocess.Popen([sys.executable, "-P", "-m", "revd", *arguments(tmp_path)], stdout=subprocess.DEVNULL)
    with ended(process) as orphans:
        until(lambda: list(tmp_path.glob("trials/*/seed0/checkpoints/steps-*")), process=process, seconds=120)
        orphans += process_tree(process.pid)[1:]
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        begun = json.loads((tmp_path / "study.json").read_text())
        assert begun["search"] == {"weight": "weight=0.001:10.0:log", "k": "k=4,5"}
        cli.main(arguments(tmp_path))
    text = capsys.readouterr().out
    assert f"{TRIALS} of {TRIALS} trials ended" in text
    runs = [RunDirectory(path) for path in sorted(tmp_path.glob("trials/*/seed0"))]
    assert [run.path.parent.name for run in runs] == ["0000", "0001"]
    assert all(run.is_finished(1500) for run in runs)
    resumed = [json.loads(run.run.read_text()).get("resumed", []) for run in runs]
    assert any(session["steps"] > 0 for sessions in resumed for session in sessions), "no training started over"
    with (tmp_path / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank"] for row in rows] == ["1", "2"]
    (again,) = [line for line in text.splitlines() if line.startswith("The best again: ")]
    assert f"--reward-params k={rows[0]['k']}" in again


def test_the_search_waits_for_a_worker_of_a_killed_driver(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "SECONDS_BETWEEN_BEATS", 0.1)
    training = TrainConfig(
        task="CartPole-v1", steps=256, n_envs=2, output=tmp_path, algo_params=Parameters(n_steps=64, batch_size=64)
    )
    config = TuneConfig(training=training, space=make_space(training), trials=1, retries=0)
    directory = RunDirectory(tmp_path / "trials/0000/seed0")

    with ExitStack() as slow_to_die:
        slow_to_die.enter_context(directory.locked())

        def watch(records):
            if directory.log.exists() and "trying again" in directory.log.read_text():
                slow_to_die.close()

        (record,) = tune(config, watch=watch)
    assert record.state == "finished"
