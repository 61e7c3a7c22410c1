"""The start page and the tutorials run as they stand, only shorter."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from revd import cli
from tests.support.installs import EXTRAS, pins
from tests.support.pages import ROOT, blocks, python_blocks

START = ROOT / "docs" / "start.md"
FIRST = ROOT / "docs" / "tutorials" / "first-bonus.md"
OWN = ROOT / "docs" / "tutorials" / "own-environment.md"
SHORTER = {"100_000": "4_096", "60_000": "4_096", "120000": "2560", "60000": "2048", "in 1 2 3": "in 1"}

Shell = Callable[[str], list[list[str]]]
Python = Callable[[str], None]


def shorter(code: str) -> str:
    for long, short in SHORTER.items():
        code = code.replace(long, short)
    return code


def shell_blocks(page: Path) -> list[str]:
    return [code for language, code in blocks(page.read_text()) if language == "bash"]


def logs(page: Path) -> list[str]:
    """The tables of numbers that a page shows."""
    return [code for language, code in blocks(page.read_text()) if language == "text"]


def names(log: str) -> set[str]:
    """The names in a table of SB3's logger."""
    return set(re.findall(r"^\|\s+([a-z_/]+)\s+\|", log, re.MULTILINE))


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Runs a block in an empty folder and returns the calls of `revd` and of pip, which only note their arguments."""
    programs = {
        "revd": 'printf "revd %s\\n" "$*" >> calls.txt',
        "pip": 'printf "pip %s\\n" "$*" >> calls.txt',
        "python3": f'exec {sys.executable} "$@" --without-pip',
    }
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(folder), prepend=":")

    def run(block: str) -> list[list[str]]:
        subprocess.run(["bash", "-euc", shorter(block)], check=True)
        return [line.split() for line in Path("calls.txt").read_text().splitlines()]

    return run


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Python:
    """Runs blocks of Python one after the other, beside `corridor.py` of the first tutorial."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "corridor", raising=False)
    monkeypatch.delitem(gymnasium.registry, "Corridor-v0", raising=False)
    (tmp_path / "corridor.py").write_text(python_blocks(FIRST)[0])
    names: dict[str, Any] = {}
    return lambda block: exec(compile(shorter(block), "page", "exec"), names)


def test_the_start_page_installs_what_is_tested(shell: Shell) -> None:
    # That pip can resolve all extras is what tools/check_install.py checks.
    torch, package = shell(shell_blocks(START)[0])
    assert Path(".venv/bin/python").exists()
    assert torch[:3] == ["pip", "install", f"torch=={pins()['torch']}"]
    assert package[:4] == ["pip", "install", "-c", "constraints.txt"]
    (extras,) = re.findall(r"^\.\[(.*)\]$", package[4])
    assert set(extras.split(",")) <= EXTRAS.keys()


def test_the_commands_of_the_start_page_train_and_report(shell: Shell) -> None:
    (block,) = shell_blocks(START)[1:]
    for _, *arguments in shell(block):
        cli.main(arguments)
    assert Path("runs/start/revd/model.zip").exists()
    report = Path("runs/start/report.md").read_text()
    assert "2 of them finished" in report
    assert "PPO+REVD" in report


@pytest.mark.parametrize("page", [START, FIRST], ids=lambda page: page.stem)
def test_the_log_has_the_names_that_the_page_shows(
    page: Path, python: Python, capsys: pytest.CaptureFixture[str]
) -> None:
    for block in python_blocks(page):
        # The fixture has saved this one as `corridor.py`.
        if "class Corridor" not in block:
            python(block)
    printed = names(capsys.readouterr().out)
    shown = set.union(*map(names, logs(page)))
    assert "bonus_share" in shown
    assert shown <= printed
    assert set(re.findall(r"^\| `(\w+)` \|", page.read_text(), re.MULTILINE)) <= printed


def test_the_own_environment_trains_in_python(python: Python) -> None:
    for block in python_blocks(OWN):
        python(block)


def test_the_own_environment_trains_from_the_command_line(shell: Shell, python: Python) -> None:
    (block,) = shell_blocks(OWN)
    calls = shell(block)
    assert [call[1] for call in calls] == ["train", "train", "report"]
    for _, *arguments in calls:
        cli.main(arguments)
    assert "2 of them finished" in Path("runs/corridor/report.md").read_text()


def test_the_corridor_is_as_the_tutorial_says() -> None:
    names: dict[str, Any] = {}
    exec(python_blocks(FIRST)[0].partition("gym.register")[0], names)
    corridor = names["Corridor"]()
    (first, _), generator = corridor.reset(), np.random.default_rng(1)
    assert first.argmax() == 0
    paid = [corridor.step(action)[1:3] for action in corridor.onward[:-1]]
    assert paid == [(0.0, False)] * 23 + [(1.0, True)]
    corridor.reset()
    furthest = [corridor.step(generator.integers(3))[0].argmax() for _ in range(10_000)]
    assert max(furthest) < 20, "random actions do not find the reward"
