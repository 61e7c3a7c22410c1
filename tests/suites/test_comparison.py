from pathlib import Path

import pytest

from revd.runs.directory import RunDirectory, Status
from revd.suites.comparison import (
    ComparisonConfig,
    check_comparison,
    comparison_runs,
    default_output,
    parse_methods,
)


def comparison(folder, *rewards, **settings):
    methods = parse_methods(["ppo"], rewards or ["revd"])
    return ComparisonConfig(**{"task": "CartPole-v1", "methods": methods, "steps": 64, "output": folder} | settings)


def test_a_method_without_a_bonus_comes_first_if_it_is_missing():
    assert [method.name for method in parse_methods(["ppo"], ["revd", "rnd"])] == ["ppo", "ppo+revd", "ppo+rnd"]
    assert [method.name for method in parse_methods(["ppo"], ["revd", "none"])] == ["ppo+revd", "ppo"]
    assert [method.name for method in parse_methods(["ppo", "a2c"], ["revd"])] == ["ppo", "ppo+revd", "a2c", "a2c+revd"]


def test_a_weight_of_its_own_and_the_weight_of_the_others():
    words = ["none", "revd", "revd@0.1", "revd+rnd@1e-3", "my.pkg:Mine@2", "rnd@auto"]
    methods = parse_methods(["ppo"], words, weight=0.5)
    assert [(method.reward, method.settings.get("weight")) for method in methods] == [
        ("none", None), ("revd", 0.5), ("revd", 0.1), ("revd+rnd", 0.001), ("my.pkg:Mine", 2.0), ("rnd", "auto")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (["revd", "rnd", "revd"], r"name ppo\+revd twice"),
        (["revd@0.1", "revd@0.10"], "twice"),
        (["revd", "revd@auto"], "twice"),
        (["none"], r"rewards must name a bonus to compare with none, such as revd, got \['none'\]"),
        (["none@0.1", "revd"], "'none' pays no bonus and has no weight, got 'none@0.1'"),
        (["revd@much"], "expected NAME or NAME@WEIGHT, as in revd@0.1 or revd@auto, got 'revd@much'"),
    ],
)
def test_wrong_rewards(rewards, message):
    with pytest.raises(ValueError, match=message):
        parse_methods(["ppo"], rewards)


def test_all_methods_have_the_same_settings_and_seeds(tmp_path):
    settings = {"n_envs": 3, "algo_params": {"n_steps": 16}}
    runs = comparison_runs(comparison(tmp_path, "revd", "revd@0.1", "a.b:C", seeds=2, settings=settings))
    assert [run.directory.name for run in runs] == [
        "ppo-seed1", "ppo-revd-seed1", "ppo-revd-weight-0.1-seed1", "ppo-a.b-C-seed1",
        "ppo-seed2", "ppo-revd-seed2", "ppo-revd-weight-0.1-seed2", "ppo-a.b-C-seed2",
    ]  # fmt: skip
    assert {(run.steps, run.n_envs, run.algo_params["n_steps"], run.directory.parent) for run in runs} == {
        (64, 3, 16, tmp_path)
    }
    assert [run.seed for run in runs] == [1] * 4 + [2] * 4


def test_the_directory_is_named_after_the_task():
    assert default_output("my.pkg:Room") == Path("runs/compare-my.pkg-Room")
    assert default_output("../up") == Path("runs/compare-up")


def test_jobs_default_to_the_cores(monkeypatch, tmp_path):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(5))
    assert comparison(tmp_path).processes == 5
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    assert comparison(tmp_path).processes == 7
    assert comparison(tmp_path, jobs=2).processes == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"jobs": -1}, "jobs must be at least 0, got -1"),
    ],
)
def test_wrong_numbers(settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        comparison(tmp_path, **settings)


@pytest.mark.parametrize(
    ("rewards", "settings", "message"),
    [
        (["revd", "redv"], {}, "unknown reward 'redv'; did you mean 'revd'"),
        (["revd"], {"task": "CartPol-v1"}, "unknown task 'CartPol-v1'; did you mean"),
        (["revd"], {"settings": {"algo_params": {"n_step": 5}}}, "unknown parameter of ppo 'n_step'; did you mean"),
        (
            ["revd"],
            {"settings": {"algo_params": {"n_steps": 2, "batch_size": 20}}},
            "k = 3 neighbours cannot be found in rollouts of n_steps = 2",
        ),
    ],
)
def test_a_method_that_cannot_be_trained_is_found_before_any_is(rewards, settings, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        check_comparison(comparison(tmp_path / "new", *rewards, **settings))
    assert not list(tmp_path.iterdir())


def test_finished_methods_are_not_checked_again(tmp_path):
    chosen = comparison(tmp_path, task="CartPol-v1", seeds=2)
    for config in comparison_runs(chosen):
        with pytest.raises(ValueError, match="unknown task"):
            check_comparison(chosen)
        directory = RunDirectory(config.directory)
        directory.start(config, resolved={}, steps=0)
        directory.finish(Status(state="finished", steps=64, total_steps=64))
    check_comparison(chosen)
