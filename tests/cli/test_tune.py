import errno
import os

import pytest
from rich.console import Console

from revd import cli
from revd.runs.config import TrainConfig
from revd.tuning.config import TuneConfig
from revd.tuning.display import trial_display, trial_line, trials_table
from revd.tuning.parameters import make_space
from revd.tuning.records import TrialRecord
from tests.support.fake_runs import FakeLauncher

CART_POLE = ["tune", "--task", "CartPole-v1", "--n-envs", "2"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RESULT_COLUMNS", "120")
    return tmp_path


@pytest.fixture
def launcher(monkeypatch):
    found = FakeLauncher(lambda config, part: part + config.weight, at_once=True)
    monkeypatch.setattr("revd.tuning.driver.LocalLauncher", lambda worker: found)
    return found


def test_a_dry_run_shows_the_space_and_starts_nothing(capsys, tmp_path):
    counts = ["--trials", "7", "--seeds", "3", "--steps", "1e5"]
    cli.main([*CART_POLE, "--search", "weight=0.01:1:log", "k=3,5", *counts, "--dry-run"])
    text = capsys.readouterr().out
    assert "│ weight    │ 0.01:1.0:log │ auto    │" in text
    assert "│ k         │ 3,5          │ 3       │" in text
    assert "7 trials of PPO+REVD on CartPole-v1, 21 runs of 100,000 steps in all" in text
    assert text.endswith("into runs/CartPole-v1/tune-ppo-revd\nNothing was started.\n")
    assert not list(tmp_path.iterdir())


def test_a_search_ends_with_a_table_and_the_best_command(capsys, tmp_path, launcher):
    cli.main([*CART_POLE, "--trials", "3", "--jobs", "4", "--retries", "0", "--algo", "a2c", "--output", "here"])
    text = capsys.readouterr().out
    assert len(launcher.started) == 3
    assert {config.algo for config in launcher.started} == {"a2c"}
    assert "3 of 3 trials ended · best" in text
    assert "Table: here/results.csv; runs: here/trials" in text
    best = max(config.weight for config in launcher.started)
    command = f"revd train --task CartPole-v1 --algo a2c --output here/best --n-envs 2 --weight {best}"
    assert text.splitlines()[-1] == f"The best again: {command}"


def test_the_strength_of_an_automatic_weight_is_searched(capsys, launcher):
    launcher.earns = lambda config, part: part + config.strength
    cli.main([*CART_POLE, "--trials", "3", "--jobs", "4", "--search", "strength", "--output", "here"])
    best = max(config.strength for config in launcher.started)
    assert {config.weight for config in launcher.started} == {"auto"}
    command = f"revd train --task CartPole-v1 --output here/best --n-envs 2 --strength {best}"
    assert capsys.readouterr().out.splitlines()[-1] == f"The best again: {command}"


def test_a_search_whose_trials_tie_has_no_best(capsys, launcher):
    launcher.earns = lambda config, part: -200.0
    cli.main([*CART_POLE, "--trials", "3", "--jobs", "4"])
    text = capsys.readouterr().out
    assert "3 of 3 trials ended · no best, all scores are equal" in text
    assert text.count("│    1 │") == 3
    assert "No trial is the best: all that finished have the same score." in text
    assert "The best" not in text


def test_a_search_whose_best_tie_names_them(capsys, launcher):
    launcher.earns = lambda config, part: -200.0 if config.weight < 0.5 else -100.0
    cli.main([*CART_POLE, "--trials", "3", "--jobs", "4", "--search", "weight=0.1,0.5,0.9"])
    text = capsys.readouterr().out
    winners = sorted(index for index, config in enumerate(launcher.started) if config.weight >= 0.5)
    assert f"best -100.00 (trials {winners[0]} and {winners[1]})" in text
    assert f"The best are trials {winners[0]} and {winners[1]}, with the same score; this is the first" in text
    assert f"--weight {launcher.started[winners[0]].weight}\n" in text.partition("The best again")[2]


def test_the_same_command_resumes(capsys, launcher):
    cli.main([*CART_POLE, "--trials", "2", "--jobs", "4"])
    cli.main([*CART_POLE, "--trials", "3", "--jobs", "4", "--no-pruner"])
    assert len(launcher.started) == 3
    assert "3 of 3 trials ended" in capsys.readouterr().out


def failing(arguments, capsys):
    with pytest.raises(SystemExit) as error:
        cli.main(arguments)
    return error.value.code, capsys.readouterr().err


def test_a_search_without_a_result_has_failed(capsys, launcher):
    launcher.breaks = lambda config: "environment 0 broke"
    code, said = failing([*CART_POLE, "--trials", "2", "--jobs", "2"], capsys)
    assert (code, said) == (1, "revd: no trial has finished, so there is no best one\n")
    launcher.breaks = lambda config: None
    cli.main([*CART_POLE, "--trials", "2", "--jobs", "2"])
    assert "2 of 2 trials ended · best" in capsys.readouterr().out


def test_a_search_that_breaks_off_shows_how_far_it_was(capsys, launcher):
    launcher.breaks = lambda config: "environment 0 broke"
    with pytest.raises(SystemExit) as error:
        cli.main([*CART_POLE, "--trials", "9", "--jobs", "9", "--retries", "0", "--output", "here"])
    assert error.value.code == 1
    text = capsys.readouterr()
    assert text.err.startswith("revd: 5 consecutive trials failed, the last one: environment 0 broke;")
    assert text.out.count("│ failed: environment 0 broke") == 9
    assert "9 trials failed (see here/trials/*/*/log.txt); the same command resumes them" in text.out


def test_a_full_disk_is_no_wrong_use(capsys, launcher, monkeypatch):
    def fsync(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("study.journal"):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    code, said = failing([*CART_POLE, "--output", "here"], capsys)
    assert code == 1
    assert said == (
        "revd: the disk of 'here' is full: [Errno 28] No space left on device: 'here/study.journal'; "
        "free some space, then run the same command to resume\n"
    )


def test_some_failures_are_part_of_a_search(capsys, launcher):
    launcher.breaks = lambda config: "environment 0 broke" if config.weight > 0.1 else None
    cli.main([*CART_POLE, "--trials", "2", "--jobs", "4", "--retries", "0", "--search", "weight=0.09,0.2"])
    text = capsys.readouterr().out
    assert "failed: environment 0 broke" in text
    assert "1 trial failed (see runs/CartPole-v1/tune-ppo-revd/trials/*/*/log.txt); the same command resumes" in text


def test_of_several_seeds_the_best_command_has_the_first(capsys, launcher):
    cli.main([*CART_POLE, "--trials", "1", "--seeds", "2", "--jobs", "4", "--seed", "3"])
    text = capsys.readouterr().out
    assert "1 trial of PPO+REVD on CartPole-v1, 2 runs of" in text
    assert "The best again, with the first of its 2 seeds: revd train --task CartPole-v1 --seed 3 " in text


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--search", "wight"], "unknown parameter to search 'wight'; did you mean 'weight'"),
        (["--trials", "0"], "trials must be at least 1, got 0"),
        (["--search", "k=3,5"], "trials must be at most 2, the number of points in the space, got 20"),
        (["--jobs", "-1"], "jobs must be at least 0, which is one for each core, got -1"),
        (["--cpus-per-run", "2"], "are for launcher 'ray'"),
        (["--preset", "paper"], "preset 'paper' covers the tasks"),
    ],
)
def test_wrong_use(capsys, tmp_path, flags, dry, message):
    code, said = failing([*CART_POLE, *flags, *dry], capsys)
    assert code == 2
    assert message in said
    assert not list(tmp_path.iterdir())


def test_a_dry_run_refuses_another_search(capsys, launcher):
    cli.main([*CART_POLE, "--trials", "1"])
    code, said = failing([*CART_POLE, "--trials", "1", "--metric", "mean", "--dry-run"], capsys)
    assert code == 2
    assert "already holds another search (metric is 'final' there and 'mean' here)" in said


def test_presets_are_searched_around(capsys):
    pytest.importorskip("ale_py", reason="games come with an extra")
    preset = ["--task", "atari/space-invaders", "--preset", "paper", "--n-envs", "1"]
    cli.main(["tune", *preset, "--search", "k", "n_steps=64,512", "--dry-run"])
    text = capsys.readouterr().out
    assert "│ k         │ 1:15:log │ 5       │" in text
    assert "│ n_steps   │ 64,512   │ 256     │" in text
    assert "20 runs of 10,000,000 steps" in text


def test_without_optuna_the_error_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("revd.cli.tune.find_spec", lambda name: None)
    code, said = failing(CART_POLE, capsys)
    assert (code, said) == (2, "revd: a search is made with Optuna: pip install 'revd[tune]'\n")


def records(*states):
    return [
        TrialRecord(number=number, state=state, values={"weight": 1 / 3, "k": number}, score=2.0 - number, steps=1000)
        for number, state in enumerate(states)
    ]


def written(*, terminal, shown):
    console = Console(force_terminal=terminal, width=100, record=True)
    config = TuneConfig(training=TrainConfig(task="CartPole-v1"), space=(), trials=40)
    with trial_display(console, config) as watch:
        for look in shown:
            watch(look)
    return console.export_text()


def test_a_log_has_a_line_for_each_change():
    running, pruned = records("running"), records("pruned")
    lines = written(terminal=False, shown=[running, running, pruned]).splitlines()
    assert lines == [
        "trial 0  weight=0.3333  k=0  running  1,000 steps  score 2.00",
        "trial 0  weight=0.3333  k=0  pruned  1,000 steps  score 2.00",
    ]


def test_a_log_has_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr("revd.tuning.display.SECONDS_BETWEEN_LINES", 0.0)
    running = records("running")
    assert len(written(terminal=False, shown=[running, running, running]).splitlines()) == 3


def test_a_terminal_shows_the_running_ones_and_the_best():
    many = records(*["finished"] * 30, "running", "failed")
    text = written(terminal=True, shown=[many])
    assert "31 of 40 trials ended · 1 failed · best 2.00 (trial 0)" in text
    assert "running" in text
    assert sum("finished" in line for line in text.splitlines()) == 10


def test_a_line_of_a_failed_trial_says_why():
    record = TrialRecord(number=3, state="failed", values={"boundary": "episode"}, error="ValueError: no")
    assert trial_line(record) == "trial 3  boundary=episode  failed: ValueError: no  0 steps"
    assert trials_table([]).row_count == 0


def test_the_command_line_reads_what_make_space_writes():
    config = cli.TuneCommand(task="CartPole-v1", n_envs=2, search=("weight",)).tuning()
    assert make_space(config.training, list(config.search.values())) == config.space
