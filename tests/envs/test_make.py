"""Environments that cannot be made, and packages that cannot be imported: the error names the task."""

import gymnasium
import pytest

from revd.envs.make import make_env
from revd.envs.tasks import TASKS
from tests.support.environments import CountingEnv

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
def test_a_missing_package_is_reported(package):
    task = f"{package}:Some-v0"
    said = "ModuleNotFoundError: No module named 'revd_test_nowhere'; install it, or put its directory on PYTHONPATH$"
    with pytest.raises(ValueError, match=f"^the package '{package}' of task '{task}' cannot be imported: {said}"):
        make_env(task)


def test_a_package_that_registers_something_else_is_an_unknown_task():
    with pytest.raises(ValueError, match=r"^unknown task 'json:Some-v0'.* as in ale_py:"):
        make_env("json:Some-v0")


def test_a_class_of_ones_own_needs_no_id(tmp_path, monkeypatch):
    (tmp_path / "revd_test_classes.py").write_text(
        "import gymnasium\n"
        "from tests.support.environments import CountingEnv\n"
        "class Mine(CountingEnv): pass\n"
        "class Twice(CountingEnv): pass\n"
        "gymnasium.register('Twice', 'revd_test_classes:Mine')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert type(make_env("revd_test_classes:Mine").unwrapped).__name__ == "Mine"
        assert type(make_env("revd_test_classes:Twice").unwrapped).__name__ == "Mine", "an id comes first"
        for other in ("CountingEnv2", "gymnasium"):
            with pytest.raises(ValueError, match=rf"^unknown task .*{other}'.*a class of yours MODULE:CLASS"):
                make_env(f"revd_test_classes:{other}")
        with pytest.raises(ValueError, match="task 'revd_test_classes:Mine' cannot be drawn"):
            make_env("revd_test_classes:Mine", render_mode="rgb_array")
    finally:
        gymnasium.registry.pop("Twice", None)


class Drawn(CountingEnv):
    """Has render modes."""

    def __init__(self, render_mode=None):
        super().__init__()
        self.render_mode = render_mode


class Undrawn(CountingEnv):
    """Has no render modes, like most custom environments."""

    def __init__(self):
        super().__init__()


@pytest.mark.parametrize(
    ("kind", "modes", "said"),
    [(Undrawn, [], "none"), (Drawn, [], "none"), (Drawn, ["human", "ansi"], "'human', 'ansi'")],
)
def test_a_task_that_cannot_be_drawn(kind, modes, said, monkeypatch):
    monkeypatch.setattr(kind, "metadata", {"render_modes": modes})
    gymnasium.register(TASK, entry_point=kind)
    try:
        make_env(TASK).close()
        with pytest.raises(ValueError, match=f"^task '{TASK}' cannot be drawn: .*'rgb_array', and .* has {said}$"):
            make_env(TASK, render_mode="rgb_array")
    finally:
        del gymnasium.registry[TASK]


def test_a_task_that_can_be_drawn_or_has_no_render_modes(monkeypatch):
    monkeypatch.setattr(Drawn, "metadata", {"render_modes": ["human", "rgb_array"]})
    try:
        for entry_point in (Drawn, lambda render_mode: Drawn(render_mode)):
            gymnasium.register(TASK, entry_point=entry_point)
            assert make_env(TASK, render_mode="rgb_array").render_mode == "rgb_array"
            del gymnasium.registry[TASK]
    finally:
        gymnasium.registry.pop(TASK, None)


def test_the_module_of_a_named_task(monkeypatch):
    def fail(module):
        raise ImportError("a library is missing")

    monkeypatch.setattr("revd.envs.make.import_module", fail)
    task = next(task for task in TASKS.values() if task.family == "minigrid")
    with pytest.raises(ValueError, match=f"of task '{task.name}' cannot be imported: ImportError: a library"):
        make_env(task)
