import errno
import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from revd.atomicfile import final_name, is_full_disk, leftovers, replacing, write_whole


def break_while_replacing(path):
    with replacing(path) as temporary:
        temporary.write_text("ne")
        assert path.read_text() == "old"
        raise RuntimeError("broke")


def test_files_are_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="broke"):
        break_while_replacing(path)
    assert path.read_text() == "old"
    write_whole(path, b"new")
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_bytes_are_on_disk_before_the_name_and_the_name_before_we_go_on(tmp_path, monkeypatch):
    done = []
    real = os.replace

    def replace(source, target):
        done.append("renamed")
        real(source, target)

    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    monkeypatch.setattr(os, "replace", replace)
    write_whole(tmp_path / "file", b"new")
    assert done == [str(tmp_path / f".{os.getpid()}.file"), "renamed", str(tmp_path)]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call):
    write_whole(tmp_path / "file", b"old")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left") as error:
        write_whole(tmp_path / "file", b"new")
    assert is_full_disk(error.value)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("file", "old")]


@pytest.mark.parametrize(("kind", "is_fine"), [(stat.S_ISDIR, True), (stat.S_ISREG, False)])
def test_disks_that_cannot_flush_directories_are_used_all_the_same(tmp_path, monkeypatch, kind, is_fine):
    def fsync(descriptor):
        if kind(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    with nullcontext() if is_fine else pytest.raises(OSError, match="Invalid argument"):
        write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").exists() == is_fine


def test_what_a_full_disk_is():
    with pytest.raises(OSError, match="No space left") as error:
        Path("/dev/full").write_bytes(b"x")
    assert is_full_disk(error.value)
    assert is_full_disk(OSError(errno.EDQUOT, "quota"))
    assert not is_full_disk(OSError(errno.EACCES, "not yours"))
    assert not is_full_disk(ValueError("28"))


def test_leftovers_are_those_of_other_processes(tmp_path):
    for name in (f".{os.getpid()}.mine", ".1.theirs.json", ".1.a.b", ".hidden", "plain", ".x.y"):
        (tmp_path / name).touch()
    found = leftovers(tmp_path)
    assert [path.name for path in found] == [".1.a.b", ".1.theirs.json"]
    assert [final_name(path) for path in found] == ["a.b", "theirs.json"]
    assert leftovers(tmp_path / "nowhere") == []
