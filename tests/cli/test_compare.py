import os
import re
from contextlib import nullcontext
from pathlib import Path

import pytest

from revd import cli
from revd.analysis.statistics.scores import JUDGED_SEEDS
from revd.analysis.statistics.verdicts import CLEAR_CHANCE, CLEAR_SEEDS
from revd.runs.directory import RunDirectory
from tests.analysis.support import fake_save
from tests.support.fake_training import fake_train_all

PAGE = Path(__file__).parents[2] / "docs" / "compare.md"
PACKAGE = """
import gymnasium as gym
import numpy as np

from revd.rewards import REVD


class Line(gym.Env):
    observation_space = gym.spaces.Box(0, 9, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = 0, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.place = min(max(self.place + 2 * int(action) - 1, 0), 9)
        self.time += 1
        return np.full(1, self.place, np.float32), float(self.place == 9), self.place == 9, self.time >= 20, {}


class Mine(REVD):
    pass


gym.register("Line-v3", Line, max_episode_steps=15)
"""
COMMAND = ["compare", "--task", "lines.walks:Line-v3", "--rewards", "lines.walks:Mine", "--seeds", "1", "--jobs", "1"]
COMMAND += ["--steps", "1000", "--n-envs", "4", "--algo-params", "n_steps=32", "n_epochs=1", "batch_size=64"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A package with a task and a reward, on PYTHONPATH, and a working directory without it."""
    (tmp_path / "code" / "lines").mkdir(parents=True)
    (tmp_path / "code" / "lines" / "__init__.py").touch()
    (tmp_path / "code" / "lines" / "walks.py").write_text(PACKAGE)
    paths = [tmp_path / "code", *filter(None, [os.environ.get("PYTHONPATH")]), Path(cli.__file__).parents[2]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    monkeypatch.syspath_prepend(tmp_path / "code")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("revd.analysis.writing.image_files.save_figure", fake_save)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def exit_code(arguments):
    with pytest.raises(SystemExit) as error:
        cli.main(arguments)
    return error.value.code


def state_of(run):
    status = RunDirectory(run).read_status()
    return None if status is None else status.state


def test_a_comparison_on_a_task_of_ones_own_is_interrupted_and_resumed(capsys, monkeypatch):
    folder = Path("runs/compare-lines.walks-Line-v3")
    plain, paid = folder / "ppo-seed1", folder / "ppo-lines.walks-Mine-seed1"

    def interrupt_the_second(runs):
        if [run.status.state for run in runs] == ["finished", "running"]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("revd.suites.display.showing_runs", lambda console: nullcontext(interrupt_the_second))
        assert exit_code(COMMAND) == 130
    assert (state_of(plain), state_of(paid) == "finished") == ("finished", False)
    capsys.readouterr()
    model = plain / "model.zip"
    written = model.stat().st_mtime_ns
    cli.main(COMMAND)
    text = capsys.readouterr().out
    assert model.stat().st_mtime_ns == written, "a finished run is left as it is"
    assert state_of(paid) == "finished"
    assert text.startswith(
        "reward none is added: the others are compared with it\n2 runs on lines.walks:Line-v3, 1,000 steps"
    )
    assert "PPO+Mine and PPO: too few seeds to judge, 1 seed; it takes at least 3 of each" in text
    assert {"learning-curve.png", "comparison.png"} <= {path.name for path in folder.iterdir()}


def test_the_verdict_and_the_table(monkeypatch, capsys):
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all())
    flags = ["--rewards", "none", "revd", "revd@0.1", "--seeds", "5", "--steps", "20000", "--output", "x"]
    cli.main(["compare", "--task", "MountainCar-v0", *flags])
    text = capsys.readouterr().out
    assert "15 runs on MountainCar-v0, 20,000 steps each" in text
    lines = text.splitlines()
    evidence = "probability of improvement 1.00 (95% interval 1.00 to 1.00), 5 seeds"
    assert [line for line in lines if evidence in line] == [
        f"PPO+REVD (weight={weight}) clearly {words} PPO: {evidence}"
        for weight in ("auto", "0.1")
        for words in ("reaches -150 earlier than", "ends with a higher return than")
    ]
    assert lines[-3:] == ["Learning curve: x/learning-curve.png", "Comparison: x/comparison.png", "Next: revd report x"]


def test_a_task_without_a_threshold_has_no_steps_to_one(monkeypatch, capsys):
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all(earns=lambda config: config.seed / 4))
    cli.main(["compare", "--task", "lines.walks:Line", "--steps", "20000"])
    text = capsys.readouterr().out
    assert "0.50 [0.25, 0.75]" in text, "small returns have two decimals"
    assert "reach" not in text
    assert "PPO+REVD and PPO are not told apart by their final return: " in text


def test_a_threshold_of_ones_own(monkeypatch, capsys):
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all())
    cli.main(["compare", "--task", "lines.walks:Line", "--steps", "20000", "--threshold", "-130"])
    text = capsys.readouterr().out
    assert "steps to reach -130" in text
    assert "PPO+REVD probably reaches -130 earlier than PPO" in text
    assert "With --seeds 5 or more, a difference can be clear." in text


def test_failed_runs_are_named_and_the_others_compared(monkeypatch, capsys):
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all(failing={2}))
    assert (
        exit_code(["compare", "--task", "lines.walks:Line", "--seeds", "4", "--steps", "20000", "--output", "x"]) == 1
    )
    text = capsys.readouterr().out
    assert "probability of improvement 1.00 (95% interval 1.00 to 1.00), 3 seeds" in text
    assert text.splitlines()[-1] == "failed: x/ppo-revd-seed2: ValueError: no (see its log.txt)"


def test_without_a_finished_episode_there_is_nothing_to_compare(monkeypatch, capsys):
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all(earns=lambda config: None))
    cli.main(["compare", "--task", "lines.walks:Line", "--steps", "20000"])
    assert capsys.readouterr().out.splitlines()[-1] == "no episode ended within 20,000 steps: try more --steps"


def test_flags_reach_every_run(monkeypatch):
    seen = []
    monkeypatch.setattr("revd.cli.compare.train_and_show", seen.append)
    flags = ["--rewards", "rnd", "re3@2", "--algos", "ppo", "a2c", "--seeds", "2", "--steps", "1e4", "--n-envs", "3"]
    flags += ["--normalize", "both", "--weight", "0.5", "--algo-params", "n_steps=7", "--jobs", "9", "--output", "y"]
    cli.main(["compare", "--task", "T", *flags])
    (found,) = seen
    assert [(method.name, dict(method.settings)) for method in found.methods] == [
        ("ppo", {}), ("ppo+rnd", {"weight": 0.5}), ("ppo+re3-weight-2", {"weight": 2.0}),
        ("a2c", {}), ("a2c+rnd", {"weight": 0.5}), ("a2c+re3-weight-2", {"weight": 2.0}),
    ]  # fmt: skip
    assert found.settings == {"n_envs": 3, "normalize": "both", "algo_params": {"n_steps": 7}}
    assert (found.seeds, found.steps, found.jobs, found.output, found.threshold) == (2, 10_000, 9, Path("y"), None)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--task", "lines.walks:Lin"], "unknown task 'lines.walks:Lin'"),
        (["--task", "nowhere.at_all:X"], "install it, or put its directory on PYTHONPATH"),
        (["--task", "CartPole-v1", "--rewards", "rnnd"], "unknown reward 'rnnd'; did you mean 'rnd'"),
        (["--task", "CartPole-v1", "--rewards", "lines.walks:Min"], "did you mean 'Mine'"),
        (["--task", "CartPole-v1", "--algos", "pp0"], "unknown algo 'pp0'; did you mean 'ppo'"),
        (["--task", "CartPole-v1", "--seeds", "0"], "seeds must be at least 1, got 0"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(flags, message, capsys):
    assert exit_code(["compare", *flags]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(Path().iterdir())


def test_another_comparison_in_the_same_directory_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all())
    cli.main(["compare", "--task", "lines.walks:Line", "--seeds", "1", "--steps", "20000"])
    assert (
        exit_code(["compare", "--task", "lines.walks:Line", "--seeds", "1", "--steps", "20000", "--n-envs", "2"]) == 2
    )
    assert "n_envs is 10 there and 2 here" in capsys.readouterr().err


def test_the_environment_of_the_page_can_be_trained(monkeypatch, tmp_path, capsys):
    (environment,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "code" / "page_rooms.py").write_text(environment)
    monkeypatch.setattr("revd.suites.scheduler.train_all", fake_train_all(earns=lambda config: 1.0))
    cli.main(["compare", "--task", "page_rooms:Room", "--steps", "20000"])
    assert "PPO+REVD and PPO are not told apart" in capsys.readouterr().out


def test_the_page_states_the_limits_of_the_words():
    words = PAGE.read_text()
    assert f"at least {CLEAR_SEEDS} seeds of each, and the probability at least {CLEAR_CHANCE}" in words
    assert f"fewer than {JUDGED_SEEDS} of a method" in words


@pytest.mark.parametrize("package", ["matplotlib", "rliable"])
def test_it_says_what_to_install(package, monkeypatch, capsys):
    monkeypatch.setattr("revd.cli.compare.find_spec", lambda name: None if name == package else object())
    assert exit_code(["compare", "--task", "CartPole-v1"]) == 2
    assert f"needs {package}: pip install 'revd[plots]'" in capsys.readouterr().err
