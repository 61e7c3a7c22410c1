from pathlib import Path

from revd.cli.compare import CompareCommand
from revd.runs.config import TrainConfig
from revd.runs.parameters import Parameters
from revd.suites.comparison import comparison_runs
from revd.suites.demo import THRESHOLD, DemoConfig


def test_the_runs_are_those_of_the_table_in_the_readme(tmp_path):
    shared = {
        "task": "MountainCar-v0",
        "steps": 120_000,
        "n_envs": 10,
        "normalize": "observations",
        "algo_params": {"n_steps": 128, "learning_rate": 3e-4},
    }
    expected = [
        TrainConfig(**shared, seed=seed, output=tmp_path / f"{name}-seed{seed}", **method)
        for seed in (1, 2, 3)
        for name, method in {
            "ppo": {"reward": "none"},
            "ppo-revd": {"reward": "revd"},
            "ppo-revd-paper-weight": {"reward": "revd", "weight": 0.1},
        }.items()
    ]
    assert comparison_runs(DemoConfig(output=tmp_path).comparison()) == expected


def test_it_is_one_call_of_compare(tmp_path):
    command = CompareCommand(
        task="MountainCar-v0",
        rewards=("none", "revd", "revd@0.1"),
        steps=120_000,
        normalize="observations",
        algo_params=Parameters(n_steps=128, learning_rate=3e-4),
        output=tmp_path,
    ).config()
    demo = DemoConfig(output=tmp_path).comparison()
    assert command.threshold == demo.threshold == THRESHOLD
    assert all(not one.differences(other) for one, other in zip(*map(comparison_runs, (command, demo)), strict=True))


def test_every_demonstration_gets_a_new_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert DemoConfig().comparison().output == Path("runs/demo-1")
    Path("runs/demo-1").mkdir(parents=True)
    assert DemoConfig().comparison().output == Path("runs/demo-2")
    assert DemoConfig(output=Path("mine")).comparison().output == Path("mine")
