import errno
import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from revd.storage.atomic import final_name, is_full_disk, leftovers, make_directory, replacing, write_whole


def break_while_replacing(path):
    with replacing(path) as temporary:
        temporary.write_text("ne")
        assert path.read_text() == "old"
        raise RuntimeError("broke")


def test_files_are_replaced_atomically(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="broke"):
        break_while_replacing(path)
    assert path.read_text() == "old"
    write_whole(path, b"new")
    assert path.read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_bytes_are_flushed_before_the_name_and_the_name_before_returning(tmp_path, monkeypatch):
    done = []
    real = os.replace

    def replace(source, target):
        done.append("renamed")
        real(source, target)

    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    monkeypatch.setattr(os, "replace", replace)
    write_whole(tmp_path / "file", b"new")
    assert [Path(done[0]).parent, final_name(Path(done[0]))] == [tmp_path, "file"]
    assert done[1:] == ["renamed", str(tmp_path)]


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
def test_file_systems_that_cannot_flush_directories(tmp_path, monkeypatch, kind, is_fine):
    def fsync(descriptor):
        if kind(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    with nullcontext() if is_fine else pytest.raises(OSError, match="Invalid argument"):
        write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").exists() == is_fine


def test_is_full_disk():
    with pytest.raises(OSError, match="No space left") as error:
        Path("/dev/full").write_bytes(b"x")
    assert is_full_disk(error.value)
    assert is_full_disk(OSError(errno.EDQUOT, "quota"))
    assert not is_full_disk(OSError(errno.EACCES, "not yours"))
    assert not is_full_disk(ValueError("28"))


def test_leftovers_are_found_by_their_names(tmp_path):
    with replacing(tmp_path / "new") as temporary:
        assert leftovers(tmp_path) == [temporary]
        assert final_name(temporary) == "new"
    # In a container the process that died had the same id as the one that resumes.
    for name in (f".{os.getpid()}.mine", ".1.theirs.json", ".1.a.b", ".hidden", "plain", ".x.y"):
        (tmp_path / name).touch()
    assert sorted(final_name(path) for path in leftovers(tmp_path)) == ["a.b", "mine", "theirs.json"]
    assert leftovers(tmp_path / "nowhere") == []


@pytest.mark.parametrize("token", [str(os.getpid()), "7"], ids=["process", "random"])
def test_a_link_at_the_temporary_name_is_not_followed(tmp_path, monkeypatch, token):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / f".{token}.file").symlink_to(victim)
    monkeypatch.setattr("secrets.randbits", lambda bits: 7)
    with pytest.raises(FileExistsError) if token == "7" else nullcontext():
        write_whole(tmp_path / "file", b"new")
    assert victim.read_text() == "mine"


def test_files_get_the_usual_permissions(tmp_path):
    (tmp_path / "plain").touch()
    write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_names_of_new_directories_are_flushed(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    make_directory(tmp_path / "a" / "b")
    assert sorted(synced) == [str(tmp_path), str(tmp_path / "a")]
    make_directory(tmp_path / "a" / "b")
    assert len(synced) == 2, "nothing new"
