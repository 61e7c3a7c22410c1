"""The check of the install: a conflict fails it, a network that is away does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import check_install
from tools.check_install import PIP, declared, find, last_lines, main, public_index_only

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def stamp(tmp_path, monkeypatch):
    """A stamp that is not there yet, and virtual environments that take no time."""
    environments = subprocess.run

    def run(command, **options):
        if command[1:3] == ["-m", "venv"]:
            return subprocess.CompletedProcess(command, 0)
        return environments(command, **options)

    monkeypatch.setattr("tools.check_install.subprocess.run", run)
    return tmp_path / "stamp"


def answering(monkeypatch, *, index: list[bool], resolves: bool) -> None:
    """A pip for which the index answers or not, one entry for each time it is asked."""
    answers = iter(index)

    def pip(folder, *arguments):
        code = int(not (next(answers) if PIP in arguments else resolves))
        return subprocess.CompletedProcess([], code, stdout="The conflict is caused by: triton\n")

    monkeypatch.setattr(check_install, "pip", pip)


def check(stamp: Path) -> int:
    return main(["--pythons", HERE, "--extras", "plots", "--stamp", str(stamp)])


def test_what_resolves_leaves_the_stamp(stamp, monkeypatch, capsys):
    answering(monkeypatch, index=[True], resolves=True)
    assert check(stamp) == 0
    assert capsys.readouterr().out == f"{sys.executable}: .[plots] resolves\n"
    assert stamp.exists()


def test_a_conflict_fails_and_is_reported(stamp, monkeypatch, capsys):
    answering(monkeypatch, index=[True, True], resolves=False)
    assert check(stamp) == 1
    said = f"{sys.executable}: .[plots] does not resolve\nThe conflict is caused by: triton\n"
    assert capsys.readouterr().out == said
    assert not stamp.exists()


@pytest.mark.parametrize(
    ("index", "said"),
    [([False], "not checked, the package index does not"), ([True, False], ".[plots] not checked, the package index")],
)
def test_without_the_index_nothing_is_checked_and_nothing_fails(index, said, stamp, monkeypatch, capsys):
    answering(monkeypatch, index=index, resolves=False)
    assert check(stamp) == 0
    assert capsys.readouterr().out.startswith(f"{sys.executable}: {said}")
    assert not stamp.exists()


def test_a_missing_python_is_reported_and_leaves_no_stamp(stamp, capsys):
    assert main(["--pythons", "3.99", "--stamp", str(stamp)]) == 0
    assert capsys.readouterr().out == "Python 3.99: not checked, no interpreter here\n"
    assert not stamp.exists()


def test_the_way_to_the_index_is_kept_and_what_is_found_there_is_not():
    settings = {"PIP_FIND_LINKS": "/wheels", "PIP_INDEX_URL": "mirror", "PIP_CERT": "/cert", "HOME": "/home"}
    assert public_index_only(settings) == {
        "PIP_CERT": "/cert",
        "HOME": "/home",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def test_interpreters_that_do_not_run_are_passed_over(tmp_path, monkeypatch):
    shim = tmp_path / "shims" / "python3.98"
    real = tmp_path / "versions" / "3.98.1" / "bin" / "python"
    for path, code in ((shim, 127), (real, 0)):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\nexit {code}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{tmp_path / 'nowhere'}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert find("3.98") == real
    assert find("3.9") is None, "3.9 is not 3.98"


def test_this_interpreter_is_taken_for_its_version():
    assert find(HERE) == Path(sys.executable)


def test_the_versions_that_are_tried_are_the_declared_ones():
    assert declared() == ["3.11", "3.12", "3.13"]


def test_the_reason_stands_at_the_end():
    assert last_lines("a\nb\nc\n", 2) == "b\nc"
