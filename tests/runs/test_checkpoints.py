import hashlib
import os

import pytest
import torch
from safetensors.torch import save

from revd.runs.checkpoints import Checkpoints


def snapshot(number):
    return {"a": torch.full((2,), float(number))}, {"number": number}


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints")


def test_none_before_the_first(checkpoints):
    assert checkpoints.newest() is None


def test_the_newest_two_are_kept(checkpoints):
    for steps in (900, 1000, 12_000):
        checkpoints.write(steps, snapshot(steps))
    assert checkpoints.newest()[1] == {"number": 12_000}
    assert sorted(path.name for path in checkpoints.path.iterdir()) == [
        "steps-000000001000.safetensors",
        "steps-000000012000.safetensors",
    ]


def test_a_damaged_one_is_reported_and_the_one_before_is_used(checkpoints):
    for steps in (1, 2):
        checkpoints.write(steps, snapshot(steps))
    newest = max(checkpoints.path.iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="the one before it is restored"):
        assert checkpoints.newest()[1] == {"number": 1}


def test_leftovers_of_a_killed_write_are_passed_over(checkpoints):
    checkpoints.write(1, snapshot(1))
    (checkpoints.path / ".123.steps-000000000002.safetensors").write_bytes(b"half")
    assert checkpoints.newest()[1] == {"number": 1}


@pytest.mark.parametrize("text", ["[" * 100_000, "5", "null"])
def test_values_that_are_none_of_ours_are_damage_too(checkpoints, text):
    for steps in (1, 2):
        checkpoints.write(steps, snapshot(steps))
    newest = max(checkpoints.path.iterdir())
    newest.write_bytes(save({}, metadata={"revd": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}))
    with pytest.warns(UserWarning, match="was not written by revd: its values are"):
        assert checkpoints.newest()[1] == {"number": 1}


def test_the_directorys_own_name_is_on_disk(checkpoints, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    checkpoints.write(1, snapshot(1))
    assert synced[0] == str(checkpoints.path.parent)
