"""Two processes never write one run, and a dead one does not keep it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from revd.runs import lease as module
from revd.runs.lease import Lease, LeaseLostError, Owner, lease
from tests.support.processes import alive, ended, until

pytestmark = pytest.mark.timeout(60)
HOLDER = """
import sys, time
from pathlib import Path
from revd.runs.lease import lease
with lease(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_BEATS", 0.02)
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LOOKS", 0.01)


@pytest.fixture
def elsewhere(tmp_path):
    """A lease that a process of another machine holds, without a heartbeat."""
    owner = replace(Owner.me(), host="far", machine="far")
    path = tmp_path / ".lease-7"
    path.write_text(json.dumps(asdict(owner)))
    return path


def enter(directory, **options):
    with lease(directory, **options):
        raise AssertionError("got in")


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lease of a directory."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with ended(process):
        assert process.stdout.readline() == "held\n"
        yield process


def test_one_at_a_time_and_one_after_the_other(tmp_path):
    for number in (1, 2, 3):
        with lease(tmp_path) as held:
            held.check()
            with pytest.raises(FileExistsError, match=rf"training in .*: process {os.getpid()} on .*--output"):
                enter(tmp_path)
        assert names(tmp_path) == [f".lease-{number}-free"], "numbers never go back"


def test_a_killed_process_of_this_machine_is_followed_at_once(tmp_path, holder):
    with pytest.raises(FileExistsError, match=f"process {holder.pid} on"):
        enter(tmp_path)
    os.kill(holder.pid, signal.SIGKILL)
    until(lambda: not alive(holder.pid))
    began = time.monotonic()
    with lease(tmp_path):
        assert time.monotonic() - began < 1, "its parent has not reaped it yet"
    assert holder.wait(timeout=10) == -signal.SIGKILL  # its other threads may end after the first one


def test_another_process_with_the_same_id_is_not_the_holder(tmp_path):
    earlier = replace(Owner.me(), started="1")
    (tmp_path / ".lease-1").write_text(json.dumps(asdict(earlier)))
    with lease(tmp_path) as held:
        held.check()


def test_a_silent_machine_is_taken_over(tmp_path, elsewhere, hurried):
    with (
        pytest.warns(UserWarning, match=r"on far has not released .* after 0 seconds without a heartbeat"),
        lease(tmp_path, takeover_after=0.2),
    ):
        assert names(tmp_path) == [".lease-8"]


def test_a_living_machine_is_not(tmp_path, elsewhere, hurried):
    threading.Timer(0.1, lambda: os.utime(elsewhere)).start()
    began = time.monotonic()
    with pytest.warns(UserWarning, match="has not released"), pytest.raises(FileExistsError, match="on far"):
        enter(tmp_path, takeover_after=30)
    assert time.monotonic() - began < 10, "its first sign of life is enough"


def test_waiting_for_the_lease_is_optional(tmp_path, elsewhere):
    with pytest.raises(FileExistsError, match="on far"):
        enter(tmp_path, takeover_after=None)


def test_clocks_of_other_machines_do_not_matter(tmp_path, elsewhere, hurried):
    """A heartbeat in the past or the future is alive if it changes, and dead if it does not."""
    os.utime(elsewhere, (4e9, 4e9))
    threading.Timer(0.1, lambda: os.utime(elsewhere, (1e6, 1e6))).start()
    with pytest.warns(UserWarning, match="has not released"), pytest.raises(FileExistsError, match="on far"):
        enter(tmp_path, takeover_after=30)
    with pytest.warns(UserWarning, match="has not released"), lease(tmp_path, takeover_after=0.1):
        assert names(tmp_path) == [".lease-8"]


def test_a_damaged_lease_is_waited_for(tmp_path, elsewhere, hurried):
    elsewhere.write_text("{")
    with (
        pytest.warns(UserWarning, match="another process has not released"),
        lease(tmp_path, takeover_after=0.1) as held,
    ):
        held.check()


@pytest.mark.parametrize("change", [{"pid": "x"}, {"pid": None}, {"pid": -1}, {"pid": 10**30}, {"more": 1}])
def test_a_lease_of_other_types_is_a_damaged_one(tmp_path, change):
    (tmp_path / ".lease-1").write_text(json.dumps({**asdict(Owner.me()), **change}))
    with pytest.raises(FileExistsError, match="it has just started"):
        enter(tmp_path, takeover_after=None)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000, b"[1]", b"5"])
def test_so_is_one_that_is_something_else(tmp_path, content):
    (tmp_path / ".lease-1").write_bytes(content)
    with pytest.raises(FileExistsError, match="it has just started"):
        enter(tmp_path, takeover_after=None)


def test_the_heart_beats_while_the_lease_is_held(tmp_path, hurried):
    with lease(tmp_path):
        path = tmp_path / ".lease-1"
        os.utime(path, (5, 5))
        until(lambda: path.stat().st_mtime != 5, seconds=10)


def test_a_copy_of_a_run_that_was_let_go_is_free_anywhere(tmp_path):
    (tmp_path / ".lease-7-free").write_text(json.dumps(asdict(replace(Owner.me(), host="far", machine="far"))))
    with lease(tmp_path, takeover_after=None):
        assert names(tmp_path) == [".lease-8"]


def test_a_lease_that_is_let_go_while_one_looks(tmp_path, monkeypatch):
    """Its name is in the list, and then it is gone: one looks again."""
    with lease(tmp_path):
        pass
    listed = iter([[".lease-1"]])
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: next(listed, None) or real(path))
    with lease(tmp_path, takeover_after=None):
        assert names(tmp_path) == [".lease-2"]


def test_a_holder_that_was_taken_over_learns_so_and_stays_quiet(tmp_path):
    with lease(tmp_path) as held:
        taker = replace(Owner.me(), host="far", machine="far")
        (tmp_path / ".lease-2").write_text(json.dumps(asdict(taker)))
        before = (tmp_path / ".lease-2").stat().st_mtime_ns
        with pytest.raises(LeaseLostError, match=r"is now held by process \d+ on far: this process was silent"):
            held.check()
        (tmp_path / ".lease-1").unlink()
        held.beat()
    assert names(tmp_path) == [".lease-2"]
    assert (tmp_path / ".lease-2").stat().st_mtime_ns == before
    (tmp_path / ".lease-2").unlink()
    with pytest.raises(LeaseLostError, match="held by nobody"):
        held.check()


def test_what_is_let_go_of_is_held_no_longer(tmp_path):
    with lease(tmp_path) as held:
        pass
    with pytest.raises(LeaseLostError, match="is now held by"):
        held.check()


def test_another_owners_lease_of_the_same_number_is_not_the_runs(tmp_path):
    """As on a network disk that was restored: the name is there, but others stand in it."""
    path = tmp_path / ".lease-1"
    with lease(tmp_path) as held:
        owner = Owner.from_json(path.read_text())
        path.write_text(json.dumps(asdict(replace(owner, token="another"))))
        with pytest.raises(LeaseLostError, match=rf"is now held by process {os.getpid()} on "):
            held.check()
    assert names(tmp_path) == [".lease-1"], "it is not released for them"


def test_of_many_takers_one_wins(tmp_path):
    """Many times: all at the same moment, from a lease whose holder is dead."""
    for round_ in range(20):
        (tmp_path / f".lease-{100 * round_ + 1}").write_text(json.dumps(asdict(replace(Owner.me(), started="1"))))
        barrier, won, refused = threading.Barrier(8), [], []

        def take(barrier=barrier, won=won, refused=refused):
            barrier.wait(timeout=30)
            try:
                won.append(module._acquire(tmp_path, None))
            except FileExistsError as error:
                refused.append(error)

        threads = [threading.Thread(target=take, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert (len(won), len(refused)) == (1, 7)
        won[0].check()
        won[0].release()


def test_a_process_that_slept_takes_no_lease_from_another(tmp_path, monkeypatch):
    """It saw number 1 dead. Since then number 2 was taken and released, and number 3 is held."""
    (tmp_path / ".lease-1").write_text(json.dumps(asdict(replace(Owner.me(), started="1"))))
    create = module._create
    at_work: list[Lease] = []

    def slow(path, content):
        monkeypatch.setattr(module, "_create", create)
        module._acquire(tmp_path, None).release()
        at_work.append(module._acquire(tmp_path, None))
        create(path, content)

    monkeypatch.setattr(module, "_create", slow)
    with pytest.raises(FileExistsError, match="another process is training"):
        module._acquire(tmp_path, None)
    at_work[0].check()
    assert names(tmp_path) == [".lease-3"]


def test_a_full_disk_leaves_no_empty_lease(tmp_path):
    (tmp_path / ".lease-1").symlink_to("/dev/full")

    class Full(type(tmp_path)):
        def open(self, mode):
            return Path("/dev/full").open("w")

    with pytest.raises(OSError, match="No space left"):
        module._create(Full(tmp_path / ".lease-1"), "x" * 100)
    assert names(tmp_path) == []


def test_without_details_of_the_system(monkeypatch):
    """Without /proc a process is known by its id alone."""
    monkeypatch.setattr(Path, "read_text", lambda path: (_ for _ in ()).throw(FileNotFoundError))
    me = Owner.me()
    assert (me.started, me.is_local, me.is_alive) == ("", True, True)
    assert not replace(me, pid=2**22 + 1).is_alive
    monkeypatch.setattr(os, "kill", lambda pid, signal: (_ for _ in ()).throw(PermissionError(1, "not yours")))
    assert me.is_alive, "of another user"
