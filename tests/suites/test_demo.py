from dataclasses import replace
from pathlib import Path

import pytest

from revd.suites.demo import DemoConfig, demo_runs


def test_the_methods_run_with_equal_settings_and_their_own_directories(tmp_path):
    runs = demo_runs(DemoConfig(seeds=3), tmp_path)
    methods = [("PPO", "auto"), ("PPO+REVD", "auto"), ("PPO+REVD", 0.1)]
    assert [(run.method, run.weight, run.seed) for run in runs] == [
        (*method, seed) for seed in (1, 2, 3) for method in methods
    ]
    assert len({run.directory for run in runs}) == 9
    plain, automatic, fixed = runs[:3]
    assert replace(automatic, reward="none", output=plain.output) == plain
    assert replace(fixed, weight="auto", output=automatic.output) == automatic
    assert {(run.task, run.steps, run.normalize) for run in runs} == {("MountainCar-v0", 120_000, "observations")}


def test_every_demonstration_gets_a_new_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert DemoConfig().directory() == Path("runs/demo-1")
    Path("runs/demo-1").mkdir(parents=True)
    assert DemoConfig().directory() == Path("runs/demo-2")
    assert DemoConfig(output=Path("mine")).directory() == Path("mine")


def test_jobs_default_to_the_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(5))
    assert DemoConfig().processes == 5
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert DemoConfig().processes == 7
    assert DemoConfig(jobs=2).processes == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"seeds": 0}, "seeds must be at least 1, got 0"), ({"jobs": -1}, "jobs must be at least 0, got -1")],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        DemoConfig(**arguments)
