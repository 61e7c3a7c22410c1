"""Environments that cannot be made, and packages that cannot be imported: the error names the task."""

import gymnasium
import pytest

from revd.envs.making import make_env
from revd.envs.tasks import TASKS

TASK = "RevdTestUnmakeable-v0"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("no display\nand more"), "RuntimeError: no display$"),
        (ValueError("width must be positive"), "ValueError: width must be positive$"),
        (SystemExit(3), "SystemExit: 3$"),
    ],
)
def test_a_constructor_that_raises(error, said):
    def make():
        raise error

    gymnasium.register(TASK, entry_point=make)
    try:
        with pytest.raises(ValueError, match=f"^an environment of task '{TASK}' cannot be made: {said}"):
            make_env(TASK)
    finally:
        del gymnasium.registry[TASK]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ImportError('built for another Python')", "ImportError: built for another Python"),
        ("import revd_test_absent", "ModuleNotFoundError: No module named 'revd_test_absent'"),
        ("raise SystemExit(4)", "SystemExit: 4"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_package_that_cannot_be_imported(text, said, tmp_path, monkeypatch):
    (tmp_path / "revd_test_package.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    name = "revd_test_package:Some-v0"
    with pytest.raises(ValueError, match=f"^the package 'revd_test_package' of task '{name}' cannot be .*: {said}$"):
        make_env(name)


@pytest.mark.parametrize("package", ["revd_test_nowhere", "revd_test_nowhere.inside"])
def test_a_package_that_is_not_there_is_an_unknown_task(package):
    with pytest.raises(ValueError, match=f"^unknown task '{package}:Some-v0'.* as in ale_py:"):
        make_env(f"{package}:Some-v0")


def test_the_module_of_one_of_our_own_tasks(monkeypatch):
    def fail(module):
        raise ImportError("a library is missing")

    monkeypatch.setattr("revd.envs.making.import_module", fail)
    task = next(task for task in TASKS.values() if task.suite == "minigrid")
    with pytest.raises(ValueError, match=f"of task '{task.name}' cannot be imported: ImportError: a library"):
        make_env(task)
