import json
from pathlib import Path

import pytest

from revd import cli
from revd.suites.demo import DemoConfig
from tests.support.fake_training import fake_train_all


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def exit_code(arguments):
    with pytest.raises(SystemExit) as error:
        cli.main(arguments)
    return error.value.code


def test_demo_shows_a_table_and_draws_a_curve(monkeypatch, capsys):
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all())
    cli.main(["demo", "--seeds", "2", "--steps", "20000"])
    text = capsys.readouterr().out
    assert "6 runs on MountainCar-v0, 20,000 steps each" in text
    assert "never" in text
    assert "10,000 [10,000, 10,000]" in text
    assert "-120.0 [-120.0, -120.0]" in text
    assert "Learning curve: runs/demo-1/learning-curve.png" in text
    assert Path("runs/demo-1/learning-curve.png").read_bytes().startswith(b"\x89PNG")


def test_demo_reports_failed_runs_and_shows_the_others(monkeypatch, capsys):
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all(failing={2}))
    assert exit_code(["demo", "--seeds", "2", "--output", "mine"]) == 1
    text = capsys.readouterr().out
    assert "failed: mine/ppo-seed2: ValueError: no (see its log.txt)" in text
    assert "1 of 1" in text
    assert Path("mine/learning-curve.png").read_bytes().startswith(b"\x89PNG")


def test_demo_in_which_all_fail_draws_nothing(monkeypatch):
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all(failing={1}))
    assert exit_code(["demo", "--seeds", "1"]) == 1
    assert not list(Path("runs").rglob("*.png"))


def test_demo_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("revd.cli.compare.find_spec", lambda name: None)
    assert exit_code(["demo"]) == 2
    assert "pip install 'revd[plots]'" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_demo_flags_reach_the_demo(monkeypatch):
    seen = []
    monkeypatch.setattr("revd.cli.demo.DemoCommand.run", lambda command: seen.append(command.config()))
    cli.main(["demo", "--seeds", "5", "--steps", "7e0", "--jobs", "3", "--output", "x"])
    assert seen == [DemoConfig(seeds=5, steps=7, jobs=3, output=Path("x"))]


def test_a_real_demo_in_short(capsys):
    cli.main(["demo", "--seeds", "1", "--steps", "2560", "--jobs", "2"])
    assert "PPO+REVD" in capsys.readouterr().out
    (finished, *_) = sorted(Path("runs/demo-1").glob("*/status.json"))
    assert json.loads(finished.read_text())["state"] == "finished"
