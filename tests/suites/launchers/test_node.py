import socket

import pytest

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.suites.launchers.file_transfer import ChangedFiles, apply_changes, collect_changes
from revd.suites.launchers.node import NodeRun, SharedPath
from tests.support.fake_worker import COMMAND
from tests.support.processes import alive, until

pytestmark = pytest.mark.timeout(60)
EMPTY = ChangedFiles(files={}, stamps={}, is_complete=True)


def config(tmp_path, task="fine"):
    return TrainConfig(task=task, steps=10, output=tmp_path / "run")


@pytest.fixture
def make_host():
    """Makes hosts that leave the node at the end, however a test ends."""
    hosts = []

    def make(**options):
        hosts.append(NodeRun(COMMAND, **options))
        return hosts[-1]

    yield make
    for host in hosts:
        host.clean_up()


@pytest.fixture
def host(make_host):
    return make_host()


def shared(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    (path / "mark").touch()
    return SharedPath(path=path, marker=path / "mark")


def outlook_that(host, happened, stamps=None):
    looks = []

    def look():
        looks.append(host.report(stamps or {}))
        return happened(looks[-1])

    until(look, seconds=30)
    return looks[-1]


def test_a_run_on_a_shared_path(tmp_path, host):
    host.start(config(tmp_path), shared(tmp_path))
    host.start(config(tmp_path), EMPTY)  # called again, since the reply was lost
    report = outlook_that(host, lambda report: not report.running)
    assert (report.changes, report.end_reason) == (None, "threads 1")
    assert RunDirectory(tmp_path / "run").read_status().state == "finished"


@pytest.mark.parametrize(("gpus", "seen"), [(True, "0,2"), (False, "")])
def test_a_run_sees_the_gpus_that_it_was_given(tmp_path, monkeypatch, make_host, gpus, seen):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    host = make_host(gpus=gpus)
    host.start(config(tmp_path), shared(tmp_path))
    outlook_that(host, lambda report: not report.running)
    assert (tmp_path / "run" / "gpus").read_text() == seen


def test_a_path_that_is_not_shared_is_refused(tmp_path, host):
    place = shared(tmp_path)
    place.marker.unlink()
    with pytest.raises(ValueError, match=r"does not see .*: choose an output that all nodes share, or .* --fetch"):
        host.start(config(tmp_path), place)


def test_a_run_that_cannot_be_begun_leaves_nothing_on_the_node(tmp_path, host, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    blocked = ChangedFiles(files={"name": b"", "name/below": b""}, stamps={}, is_complete=True)
    with pytest.raises(OSError, match="name"):
        host.start(config(tmp_path), blocked)
    assert list(tmp_path.iterdir()) == []


def test_what_was_brought_is_not_sent_back(tmp_path, host):
    before = RunDirectory(tmp_path / "before")
    before.start(config(tmp_path, "endless"), resolved={}, steps=0)
    brought = collect_changes(before.path, {}, ended=True)
    stamps = host.start(config(tmp_path, "endless"), brought)
    assert stamps.keys() == brought.stamps.keys()
    assert host.start(config(tmp_path, "endless"), brought) == stamps, "called again, since the reply was lost"
    report = outlook_that(host, lambda report: "status.json" in report.changes.files, stamps)
    assert "config.json" not in report.changes.files


def test_a_node_that_is_left_ends_its_run(tmp_path, host):
    place = shared(tmp_path)
    host.start(config(tmp_path, "endless"), place)
    pid = place.path / "pid"
    outlook_that(host, lambda report: pid.exists() and pid.read_text())
    assert alive(int(pid.read_text()))
    host.clean_up()
    assert not alive(int(pid.read_text()))
    assert RunDirectory(place.path).read_status().state == "interrupted"


def test_a_run_on_its_own_disk_resumes_from_its_files_and_leaves_none(tmp_path, host):
    before = tmp_path / "before"
    before.mkdir()
    (before / "first").touch()
    host.start(config(tmp_path, "second-time"), collect_changes(before, {}, ended=True))
    report = outlook_that(host, lambda report: not report.running)
    own = host._own_disk
    assert report.end_reason == "threads 1"
    apply_changes(report.changes, tmp_path / "after")
    assert RunDirectory(tmp_path / "after").read_status().state == "finished"
    assert not (tmp_path / "run").exists()
    assert own.exists()
    host.clean_up()
    assert not own.exists()


def test_an_interrupted_run_says_so_in_its_last_parcel(tmp_path, host):
    host.start(config(tmp_path, "endless"), EMPTY)
    begun = outlook_that(host, lambda report: "status.json" in report.changes.files)
    host.ask_to_stop()
    ended = outlook_that(host, lambda report: not report.running, begun.changes.stamps)
    assert list(ended.changes.files)[-1] == "status.json"
    apply_changes(ended.changes, tmp_path / "after")
    assert RunDirectory(tmp_path / "after").read_status().state == "interrupted"


def test_a_host_without_a_run_has_nothing_to_stop():
    host = NodeRun()
    assert host.hostname() == socket.gethostname()
    host.ask_to_stop()
    host.clean_up()
