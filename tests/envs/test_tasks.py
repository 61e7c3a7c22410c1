import importlib.util
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import pytest

from revd.envs.make import make_env, register
from revd.envs.tasks import PACKAGES, TASKS, find_task, how_to_install, installed, require_installed
from tests.support.bullet import needs_pybullet

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def names(family):
    return {task.name.removeprefix(f"{family}/") for task in TASKS.values() if task.family == family}


def test_the_tasks_of_each_family():
    games = {"assault", "battle-zone", "demon-attack", "kung-fu-master", "riverraid", "space-invaders"}
    assert names("atari") == {*games, "montezuma-revenge"}
    assert names("bullet") == {"ant", "cart-pole", "half-cheetah", "hopper", "humanoid", "walker-2d"}
    assert names("classic") == {"cart-pole", "mountain-car", "mountain-car-continuous"}
    assert {"door-key-5x5", "door-key-8x8", "door-key-16x16", "key-corridor-s3r3"} <= names("minigrid")
    assert {"multi-room-n2-s4", "multi-room-n4-s5", "multi-room-n6"} <= names("minigrid")


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_every_task_is_described_and_found(task):
    assert find_task(task.name) is task
    assert re.fullmatch(rf"{task.family}/[a-z0-9-]+", task.name)
    assert task.description.endswith(".")
    assert "\n" not in task.description
    assert task.extra == (None if task.family == "classic" else task.family)


@pytest.mark.parametrize("family", ["atari", pytest.param("bullet", marks=needs_pybullet), "classic", "minigrid"])
def test_gymnasium_knows_the_ids_in_their_latest_version(family):
    for task in TASKS.values():
        if task.family == family:
            assert installed(task)
            register(task)  # an outdated id would warn, and warnings are errors here
            assert gymnasium.spec(task.gymnasium_id).id == task.gymnasium_id


def test_any_other_string_is_a_gymnasium_id():
    task = find_task("ALE/Pong-v5")
    assert (task.gymnasium_id, task.family, task.extra) == ("ALE/Pong-v5", "gymnasium", None)
    assert installed(task)
    with make_env("Acrobot-v1") as env:
        assert env.spec.id == "Acrobot-v1"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("bullet/hoper", "bullet/hopper"), ("atari/asault", "atari/assault"), ("minigrid/doorkey-8x8", "door-key-8x8")],
)
def test_misspelt_names_get_the_nearest(name, nearest):
    with pytest.raises(ValueError, match=f"unknown task '{name}'; did you mean .*{nearest}"):
        find_task(name)


@pytest.mark.parametrize(("name", "nearest"), [("CartPol-v1", "CartPole-v1"), ("bulet/hopper", "bullet/hopper")])
def test_unknown_ids_get_the_nearest_names(name, nearest):
    with pytest.raises(ValueError, match=f"unknown task '{name}'; did you mean .*{nearest}.* as in ale_py:"):
        make_env(name)


@pytest.mark.parametrize("name", ["CartPole", "cart pole", "CartPole-v1 ", "a/b/c-v0", "../x", "gymnasium:"])
def test_malformed_ids_are_unknown_tasks(name):
    with pytest.raises(ValueError, match=f"unknown task '{name}'.* as in ale_py:"):
        make_env(name)


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr("revd.envs.tasks.find_spec", lambda package: None)
    monkeypatch.setattr("revd.envs.tasks.sys", SimpleNamespace(version_info=(3, 11)))
    task = find_task("bullet/hopper")
    assert not installed(task)
    with pytest.raises(
        ValueError, match=r"'bullet/hopper' needs pybullet and pybullet_envs_gymnasium: pip install 'rev"
    ):
        require_installed(task)
    with pytest.raises(ValueError, match=re.escape("pip install 'revd[minigrid]'")):
        make_env("minigrid/door-key-5x5")
    assert installed(find_task("classic/cart-pole")), "needs nothing"


def test_the_extras_install_the_packages():
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    for extra, packages in PACKAGES.items():
        required = {re.split(r"[>=<;\s]", line)[0].replace("-", "_") for line in extras[extra]}
        assert set(packages) <= required


def test_atari_games_are_made_as_vectors_only():
    with pytest.raises(ValueError, match="only be made as a vector"):
        make_env("atari/assault")


def test_finding_a_task_loads_none_of_its_packages():
    # The listing of tasks must work, and answer at once, where nothing is installed.
    spec = importlib.util.find_spec("revd.envs.tasks")
    assert spec is not None
    source = Path(spec.origin).read_text()
    assert set(re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE)) == {
        "collections",
        "dataclasses",
        "importlib",
        "sys",
        "typing",
        "revd",
    }


def test_newer_pythons_have_no_pybullet(monkeypatch):
    monkeypatch.setattr("revd.envs.tasks.sys", SimpleNamespace(version_info=(3, 12)))
    assert "Python 3.11" in how_to_install("bullet")
    assert how_to_install("atari") == "pip install 'revd[atari]'"


@pytest.mark.parametrize(("platform", "said"), [("linux", "pip install 'revd[envpool]'"), ("darwin", "use Linux")])
def test_envpool_is_built_for_linux(monkeypatch, platform, said):
    monkeypatch.setattr("revd.envs.tasks.sys", SimpleNamespace(platform=platform, version_info=(3, 12)))
    assert how_to_install("envpool").startswith(said)


def test_tasks_of_other_packages_are_named_with_them():
    env = make_env("tests.support.faulty_task:RevdBroken-v0")
    assert env.reset()[0].shape == (3,)
    with pytest.raises(ValueError, match="unknown task"):
        make_env("tests.support.faulty_task:RevdWhole-v0")
