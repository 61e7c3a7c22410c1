"""Which engine steps a task. That EnvPool's tasks are Gymnasium's is shown in test_envpool.py."""

import pytest

from revd.envs import envpool
from revd.envs.engines import choose_engine
from revd.envs.make import make_env
from revd.envs.tasks import find_task


@pytest.fixture
def without_envpool(monkeypatch):
    monkeypatch.setattr(envpool, "find_spec", lambda name: None)
    monkeypatch.setattr("revd.envs.tasks.find_spec", lambda name: None)


@pytest.fixture
def with_envpool(monkeypatch):
    monkeypatch.setattr(envpool, "find_spec", lambda name: name)
    monkeypatch.setattr("revd.envs.tasks.find_spec", lambda name: name)
    monkeypatch.setattr(envpool, "task_ids", lambda: ["MountainCar-v0", "MiniGrid-DoorKey-8x8-v0", "Ant-v5"])


@pytest.mark.parametrize(
    ("task", "engine"),
    [
        ("classic/mountain-car", "envpool"),
        ("minigrid/door-key-8x8", "envpool"),
        ("minigrid/door-key-5x5", "gymnasium"),  # not among those of the fixture
        ("MountainCar-v0", "gymnasium"),
        ("bullet/ant", "gymnasium"),
        ("atari/assault", "gymnasium"),
        ("envpool/Ant-v5", "envpool"),
    ],
)
def test_auto_takes_envpool_for_tasks_that_it_has_as_they_are(with_envpool, task, engine):
    assert choose_engine(find_task(task), "auto") == engine


def test_auto_needs_no_envpool(without_envpool):
    assert choose_engine(find_task("classic/mountain-car"), "auto") == "gymnasium"


def test_what_is_asked_for_is_taken(with_envpool):
    task = find_task("classic/mountain-car")
    assert choose_engine(task, "gymnasium") == "gymnasium"
    assert choose_engine(task, "envpool") == "envpool"


@pytest.mark.parametrize(
    ("task", "engine", "said"),
    [
        ("classic/mountain-car", "envpol", "unknown engine 'envpol'; did you mean 'envpool'"),
        ("bullet/ant", "envpool", r"engine 'envpool' steps the tasks classic/…, minigrid/….* not 'bullet/ant'"),
        ("MountainCar-v0", "envpool", "not 'MountainCar-v0'"),
        ("minigrid/door-key-5x5", "envpool", "unknown task of EnvPool 'MiniGrid-DoorKey-5x5-v0'"),
        ("envpool/Ant-v5", "gymnasium", "is EnvPool's own"),
        ("envpool/Ant-v9", "auto", "unknown task of EnvPool 'Ant-v9'; did you mean 'Ant-v5'"),
    ],
)
def test_what_does_not_fit_is_refused(with_envpool, task, engine, said):
    with pytest.raises(ValueError, match=said):
        choose_engine(find_task(task), engine)


@pytest.mark.parametrize(("task", "engine"), [("classic/mountain-car", "envpool"), ("envpool/Ant-v5", "auto")])
def test_what_is_missing_is_named_with_its_command(without_envpool, task, engine):
    with pytest.raises(ValueError, match=r"pip install 'revd\[envpool\]'"):
        choose_engine(find_task(task), engine)


def test_a_single_environment_of_envpools_own_is_refused():
    with pytest.raises(ValueError, match="task 'envpool/Ant-v5' can only be made as a vector"):
        make_env("envpool/Ant-v5")
