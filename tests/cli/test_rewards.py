"""`revd rewards`, and rewards of other packages in the other commands, each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import revd
from revd import cli
from revd.rewards import REGISTRY, REWARDS

PLUGIN = """
from dataclasses import dataclass

import torch
from revd.rewards import IntrinsicReward, RewardConfig


@dataclass(frozen=True, kw_only=True)
class MineConfig(RewardConfig):
    \"\"\"Parameters.

    Attributes:
        size: How much is
            paid.
        unexplained: What for.
    \"\"\"

    size: float = 1.0
    unexplained: str = "chance"


class Mine(IntrinsicReward):
    \"\"\"Pays whatever comes.

    ::

        r = [size] * u
    \"\"\"

    config_type = MineConfig
    advice = "For tests of rewards [of others]."
    uses_successors = False

    def bonus(self, rollout):
        return self.config.size * torch.rand(rollout.dones.shape, generator=torch.Generator().manual_seed(0))
"""
SHORT = ["--task", "CartPole-v1", "--steps", "64", "--n-envs", "2", "--algo-params", "n_steps=32"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mypkg_rewards.py").write_text(PLUGIN)
    monkeypatch.chdir(tmp_path)
    paths = [str(tmp_path), str(Path(revd.__file__).parents[1])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    return tmp_path


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    code = "import sys; from revd.cli import main; main(sys.argv[1:])"
    return subprocess.run([sys.executable, "-P", "-c", code, *words], capture_output=True, text=True, check=False)


def test_the_list_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["rewards"])
    text = capsys.readouterr().out
    for name in REWARDS:
        assert f" {name} " in text
    assert "built-in" in text
    assert "k=3" not in text


def test_one_reward_is_described(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    cli.main(["rewards", "ride"])
    text = capsys.readouterr().out
    assert "r^_t = || phi(s_{t+1}) - phi(s_t) ||_2 / sqrt(N_ep(s_{t+1}))" in text
    assert "Learning rate of Adam on the models." in text
    assert "learning_rate" in text
    assert "0.0003" in text
    assert "Seed of all random numbers of the method." in text, "inherited"


def test_a_reward_of_a_package_is_described_too(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.syspath_prepend(package)
    cli.main(["rewards", "mypkg_rewards:Mine"])
    text = capsys.readouterr().out
    for words in ("r = [size] * u", "How much is paid.", "What for.", "chance"):
        assert words in text


def test_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        cli.main(["rewards", "rvd"])
    assert error.value.code == 2
    assert "unknown reward 'rvd'; did you mean 'revd'" in capsys.readouterr().err


def test_a_broken_plug_in_is_a_warning_beside_the_list(package: Path) -> None:
    info = package / "mine-3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 3\n")
    (info / "entry_points.txt").write_text("[revd.rewards]\nmine = mypkg_rewards:Mine\nlost = mypkg_rewards:Lost\n")
    answer = run("rewards")
    assert answer.returncode == 0
    assert (
        "revd: the reward 'lost' of the plug-in mine 3 (mypkg_rewards:Lost) cannot be loaded: AttributeErr"
        in answer.stderr
    )
    assert "For tests of rewards [of others]." in answer.stdout
    assert " lost " not in answer.stdout


def test_a_registered_one_is_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(REGISTRY, "_registered", {"mine": revd.RE3})
    cli.main(["rewards"])
    assert "registered" in capsys.readouterr().out


def test_a_training_with_a_reward_of_a_package(package: Path) -> None:
    words = ["--reward", "revd+mypkg_rewards:Mine", "--reward-params", "mine.size=2", "--no-progress"]
    answer = run("train", *SHORT, *words)
    assert answer.returncode == 0, answer.stderr
    directory = Path("runs/CartPole-v1/ppo-revd+mypkg_rewards-Mine-seed0")
    config = json.loads((directory / "config.json").read_text())
    assert config["resolved"]["method"] == "PPO+REVD+Mine"
    assert config["resolved"]["reward_params"]["mine"]["size"] == 2
    assert "exploration/mine/bonus_mean" in (directory / "progress.csv").read_text()


def test_suites_with_a_reward_of_a_package(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(package)
    cli.main(["suite", "smoke", "--reward", "mypkg_rewards:Mine", "--dry-run", "--seeds", "0"])
    assert capsys.readouterr().out.count("--reward mypkg_rewards:Mine") == 4, "two tasks, two algorithms"
    with pytest.raises(SystemExit) as error:
        cli.main(["suite", "smoke", "--reward", "mypkg_rewards:Mien", "--dry-run"])
    assert error.value.code == 2
    said = capsys.readouterr().err
    assert "unknown class of the module 'mypkg_rewards' 'Mien'; did you mean 'Mine'" in said


def test_a_search_with_a_reward_of_a_package(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its trial is a process of its own."""
    monkeypatch.syspath_prepend(package)
    search = ["--search", "size=1,2", "--trials", "1", "--jobs", "1", "--output", "search"]
    cli.main(["tune", *SHORT, "--reward", "mypkg_rewards:Mine", *search])
    assert "--reward mypkg_rewards:Mine" in capsys.readouterr().out.partition("The best again")[2]
