import os

import pytest

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, Status
from revd.suites.launchers.file_transfer import ChangedFiles, apply_changes, collect_changes, file_stamps

NOTHING = ChangedFiles(files={}, stamps={}, is_complete=False)


@pytest.fixture
def source(tmp_path):
    """A run that has trained for a while."""
    directory = RunDirectory(tmp_path / "source")
    directory.start(TrainConfig(task="CartPole-v1"), resolved={}, steps=0)
    add(directory, "progress.csv", "rows")
    return directory


@pytest.fixture
def target(tmp_path):
    return RunDirectory(tmp_path / "target")


def add(directory, name, text):
    path = directory.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def names(directory):
    return sorted(path.relative_to(directory.path).as_posix() for path in directory.path.rglob("*") if path.is_file())


def carry(source, target, changes=NOTHING, *, ended=False):
    changes = collect_changes(source.path, changes.stamps, ended=ended)
    apply_changes(changes, target.path)
    return changes


def test_during_a_run_only_changes_are_transferred(source, target):
    first = carry(source, target)
    assert names(target) == ["config.json", "run.json", "status.json"]
    source.write_status(Status(state="running", steps=5, total_steps=10))
    second = carry(source, target, first)
    assert list(second.files) == ["status.json"]
    assert target.read_status().steps == 5
    assert not carry(source, target, second).files


def test_the_rows_of_a_checkpoint_are_transferred_before_it(source, target):
    changes = carry(source, target)
    add(source, "checkpoints/steps-000000000005.safetensors", "five")
    changes = carry(source, target, changes)
    assert list(changes.files) == ["progress.csv", "checkpoints/steps-000000000005.safetensors"]
    add(source, "progress.csv", "more rows")
    assert not carry(source, target, changes).files, "until the next one"
    add(source, "checkpoints/steps-000000000010.safetensors", "ten")
    (source.checkpoints.path / "steps-000000000005.safetensors").unlink()
    carry(source, target, changes)
    assert (target.path / "progress.csv").read_text() == "more rows"
    assert names(target)[0] == "checkpoints/steps-000000000010.safetensors"
    assert len(names(target)) == 5, "the older checkpoint is gone here too"


@pytest.mark.parametrize("how", ["finished", "killed"])
def test_the_end_brings_everything_and_the_status_last(source, target, how):
    changes = carry(source, target)
    add(source, "model.zip", "model")
    source.write_status(Status(state="finished" if how == "finished" else "running", steps=9))
    changes = carry(source, target, changes, ended=how == "killed")
    assert list(changes.files) == ["progress.csv", "model.zip", "status.json"]
    assert names(target) == names(source)


def test_a_run_that_ends_while_it_is_packed_ends_with_the_next_parcel(source, target, monkeypatch):
    changes = carry(source, target)
    listed = type(source.path).iterdir

    def ending(path):
        if path == source.path or path == source.checkpoints.path:
            add(source, "model.zip", "model")
            source.write_status(Status(state="finished", steps=10, total_steps=10))
        return listed(path)

    monkeypatch.setattr(type(source.path), "iterdir", ending)
    source.checkpoints.path.mkdir()
    changes = carry(source, target, changes)
    assert not target.is_finished(10), "nor will it be if the node dies now: its checkpoint was not transferred"
    carry(source, target, changes)
    assert target.is_finished(10)
    assert names(target) == names(source)


@pytest.mark.parametrize("text", ["", "[1]", '{"steps": 3}', "[" * 100_000])
def test_a_damaged_status_does_not_speak_of_an_end(source, target, text):
    add(source, "status.json", text)
    assert not carry(source, target).is_complete


def test_stamps_of_what_was_brought_keep_it_from_being_sent_back(source, target):
    add(source, "checkpoints/steps-000000000005.safetensors", "five")
    changes = carry(source, target, ended=True)
    assert file_stamps(target.path).keys() == changes.stamps.keys() == set(names(target))
    assert not collect_changes(target.path, file_stamps(target.path), ended=True).files


def test_what_belongs_to_a_machine_stays_there(source, target):
    add(source, ".lease-1", "{}")
    add(source, ".123.model.zip", "unfinished")
    os.symlink("/etc/hostname", source.path / "link")
    carry(source, target, ended=True)
    assert names(target) == ["config.json", "progress.csv", "run.json", "status.json"]


def test_a_file_that_goes_while_it_is_packed_is_left_out(source, target, monkeypatch):
    add(source, "checkpoints/steps-000000000005.safetensors", "five")
    opened = type(source.path).open

    def vanishing(path, mode):
        if path.parent.name == "checkpoints":
            path.unlink()
        return opened(path, mode)

    monkeypatch.setattr(type(source.path), "open", vanishing)
    changes = collect_changes(source.path, {}, ended=False)
    monkeypatch.undo()
    apply_changes(changes, target.path)
    assert names(target) == ["config.json", "progress.csv", "run.json", "status.json"]
    assert "checkpoints/steps-000000000005.safetensors" not in changes.stamps
