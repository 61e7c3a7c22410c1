"""The launcher's remote calls, with a scripted node. Real nodes: test_launchers.py."""

import signal
import threading
import time
import weakref
from types import SimpleNamespace

import pytest

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory, Status
from revd.runs.termination import interrupt_on_termination
from revd.suites.launchers.file_transfer import collect_changes
from revd.suites.launchers.node import NodeReport

exceptions = pytest.importorskip("ray.exceptions", reason="Ray has no release for this version of Python")

from revd.suites.launchers import ray_attempt  # noqa: E402 - it imports Ray

RUNNING = NodeReport(running=True, end_reason="", changes=None)
UNAVAILABLE = exceptions.ActorUnavailableError("no connection", None)
LOST = exceptions.ActorDiedError()


class Node:
    """Replies to calls from a list; an error is raised in place of a reply."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def __getattr__(self, name):
        return SimpleNamespace(remote=lambda *arguments: self.asked.append(name))

    def questions(self):
        return [name for name in self.asked if name != "kill"]


@pytest.fixture
def meet(monkeypatch, tmp_path):
    """An attempt at a run on a node."""

    def get(ref):
        answer = node.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def meet(*answers, fetch=False):
        nonlocal node
        node = Node(*answers)
        return node, ray_attempt.RayAttempt(node, config, fetch=fetch)

    node = None
    config = TrainConfig(task="a", steps=10, output=tmp_path / "run")
    stub = SimpleNamespace(
        wait=lambda refs, timeout: (refs if node.answers else [], []),
        get=get,
        put=lambda value: value,
        kill=lambda host: host.asked.append("kill"),
    )
    monkeypatch.setattr(ray_attempt, "ray", stub)
    return meet


def converse(attempt):
    """Poll until it has ended."""
    for _ in range(20):
        if not attempt.running:
            return
    raise AssertionError("the attempt has not ended")


def until(happened):
    """Wait for what another thread does."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_run_begins_and_ends(meet, tmp_path):
    node, attempt = meet("node", None, RUNNING, NodeReport(running=False, end_reason="finished", changes=None), None)
    assert attempt.queued
    converse(attempt)
    assert not attempt.queued
    assert (attempt.lost, attempt.end_reason()) == (False, "finished")
    assert node.asked == ["hostname", "start", "report", "report", "clean_up", "kill"]
    assert list((tmp_path / "run").iterdir()) == [], "the mark that the node looked for is gone"


def test_a_call_whose_reply_is_lost_is_repeated(meet):
    node, attempt = meet("node", UNAVAILABLE, None, UNAVAILABLE, UNAVAILABLE, RUNNING)
    for _ in range(6):
        assert attempt.running
    assert node.asked == ["hostname", "start", "start", "report", "report", "report", "report"]


def test_a_node_that_dies_loses_the_run(meet, tmp_path):
    node, attempt = meet("node", None, RUNNING, LOST, fetch=False)
    converse(attempt)
    assert attempt.lost
    assert attempt.end_reason() == "The actor died unexpectedly before finishing this task."
    attempt.stop()
    assert node.asked.count("kill") == 1


def test_a_node_that_cannot_load_the_code_is_a_failure(meet):
    cause = exceptions.RayTaskError("Host", "No module named 'revd'", ImportError("no revd"), ip="here")
    _, attempt = meet(exceptions.ActorDiedError(cause))
    converse(attempt)
    assert not attempt.lost
    assert "No module named 'revd'" in attempt.end_reason()


@pytest.mark.parametrize("begun", [False, True])
def test_errors_on_the_node_are_reported(meet, begun):
    error = exceptions.RayTaskError("Host", "traceback", OSError("the disk is full"), ip="here")
    _, attempt = meet("node", *([None] if begun else []), error)
    converse(attempt)
    assert not attempt.lost
    assert attempt.end_reason() == ("" if begun else "cannot be started: ") + "the disk is full"


def test_long_words_of_ray_are_cut(meet):
    _, attempt = meet(exceptions.RaySystemError("x" * 1000))
    converse(attempt)
    assert len(attempt.end_reason()) == 200
    assert attempt.end_reason().endswith("x…")


def test_a_run_that_is_not_begun_is_given_up_at_once(meet, tmp_path):
    node, attempt = meet()
    attempt.ask_to_stop()
    attempt.stop()
    assert not attempt.running
    assert node.asked == ["hostname", "kill"]
    assert not (tmp_path / "run").exists()


def test_a_node_that_does_not_stop_is_left_to_ray(meet, monkeypatch):
    monkeypatch.setattr(ray_attempt, "SECONDS_TO_STOP", 0.0)
    monkeypatch.setattr(ray_attempt, "SECONDS_FOR_REPLY", 0.1)
    node, attempt = meet("node", None)
    assert attempt.running
    assert attempt.running
    attempt.ask_to_stop()
    attempt.stop()
    assert node.asked == ["hostname", "start", "report", "ask_to_stop", "stop", "clean_up", "kill"]
    assert attempt.end_reason() == "it did not stop"


def test_a_run_that_is_being_begun_is_asked_to_stop(meet, monkeypatch):
    monkeypatch.setattr(ray_attempt, "SECONDS_TO_STOP", 0.0)
    monkeypatch.setattr(ray_attempt, "SECONDS_FOR_REPLY", 0.1)
    node, attempt = meet("node")
    assert attempt.running
    assert not attempt.queued
    attempt.ask_to_stop()
    attempt.stop()
    assert node.asked == ["hostname", "start", "ask_to_stop", "stop", "clean_up", "kill"], "it may have begun by now"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_until_files_are_written(meet, tmp_path, monkeypatch, number):
    away = RunDirectory(tmp_path / "away")
    away.start(TrainConfig(task="a", steps=10), resolved={}, steps=0)
    running = NodeReport(running=True, end_reason="", changes=collect_changes(away.path, {}, ended=False))
    over = NodeReport(running=False, end_reason="finished", changes=collect_changes(away.path, {}, ended=True))
    _, attempt = meet("node", {}, running, over, None, fetch=True)
    apply_changes = ray_attempt.apply_changes

    def interrupted(changes, path):
        if len(list(path.glob("*.json"))) == 0:
            signal.raise_signal(number)
        apply_changes(changes, path)

    monkeypatch.setattr(ray_attempt, "apply_changes", interrupted)
    with interrupt_on_termination(), pytest.raises(KeyboardInterrupt):
        converse(attempt)
    assert RunDirectory(tmp_path / "run").read_status() == Status(state="running", total_steps=10)
    attempt.ask_to_stop()
    attempt.stop()
    assert attempt.end_reason() == "finished", "all calls were made"


def test_a_conversation_that_broke_off_ends(meet, tmp_path, monkeypatch):
    away = RunDirectory(tmp_path / "away")
    away.start(TrainConfig(task="a", steps=10), resolved={}, steps=0)
    report = NodeReport(running=True, end_reason="", changes=collect_changes(away.path, {}, ended=False))
    node, attempt = meet("node", {}, report, None, fetch=True)

    def broken(changes, path):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(ray_attempt, "apply_changes", broken)
    with pytest.raises(RuntimeError, match="a mistake"):
        converse(attempt)
    attempt.ask_to_stop()
    attempt.stop()
    assert attempt.end_reason() == "the launcher failed"
    assert node.asked == ["hostname", "start", "report", "ask_to_stop", "stop", "clean_up", "kill"]


@pytest.fixture
def left_behind(tmp_path, monkeypatch):
    """The directory of a run whose lease a machine left behind, and a heartbeat that has not changed for long."""
    silent = threading.Event()
    monkeypatch.setattr("revd.runs.lease._await_silence", lambda *seen: silent.wait(timeout=10))
    here = tmp_path / "run"
    here.mkdir()
    (here / ".lease-1").write_text("of a machine that is no more")
    return here, silent


def test_a_directory_of_another_machine_is_waited_for_while_others_are_served(meet, left_behind):
    here, silent = left_behind
    node, attempt = meet("node", "node", fetch=True)

    def greeted_and_begun():
        node.answers.append("node")
        return attempt.running and not attempt.queued

    for _ in range(3):
        assert attempt.running, "and `running` does not wait for it"
    assert attempt.queued
    assert node.asked == ["hostname"] * 3
    silent.set()
    until(lambda: (here / ".lease-2").exists())
    until(greeted_and_begun)
    assert node.asked[-1] == "start"


def test_a_directory_that_is_still_waited_for_is_given_up_without_waiting(meet, left_behind):
    here, silent = left_behind
    node, attempt = meet("node", fetch=True)
    assert attempt.running
    attempt.ask_to_stop()
    assert node.asked == ["hostname", "hostname", "kill"]
    silent.set()
    until(lambda: (here / ".lease-2-free").exists())


def test_what_a_run_begins_with_is_not_kept(meet, tmp_path, monkeypatch):
    class Reference:
        """Of what was put into the object store."""

    references = []

    def put(value):
        reference = Reference()
        references.append(weakref.ref(reference))
        return reference

    _, attempt = meet("node", {}, fetch=True)
    monkeypatch.setattr(ray_attempt.ray, "put", put)
    assert attempt.running
    assert references[0]() is not None, "the same call may have to be repeated"
    assert attempt.running
    assert references[0]() is None


def test_files_are_fetched_while_the_directory_is_kept_from_others(meet, tmp_path):
    away = RunDirectory(tmp_path / "away")
    away.start(TrainConfig(task="a", steps=10), resolved={}, steps=0)
    away.write_status(Status(state="running", steps=3, total_steps=10))
    changes = collect_changes(away.path, {}, ended=False)
    _, attempt = meet("node", {}, NodeReport(running=True, end_reason="", changes=changes), LOST, fetch=True)
    here = RunDirectory(tmp_path / "run")
    for _ in range(3):
        assert attempt.running
    assert here.read_status().steps == 3
    with pytest.raises(FileExistsError, match="another process is training"), here.locked():
        pass
    converse(attempt)
    with here.locked():
        assert here.read_status().steps == 3


def test_the_directory_of_a_living_process_is_not_changed(meet, tmp_path):
    with RunDirectory(tmp_path / "run").locked():
        node, attempt = meet("node", fetch=True)
        converse(attempt)
    assert attempt.end_reason().startswith("cannot be started: another process is training")
    assert node.asked == ["hostname", "kill"]


def test_a_directory_that_another_process_took_is_not_written(meet, tmp_path):
    away = RunDirectory(tmp_path / "away")
    away.start(TrainConfig(task="a", steps=10), resolved={}, steps=0)
    changes = collect_changes(away.path, {}, ended=False)
    node, attempt = meet("node", {}, NodeReport(running=True, end_reason="", changes=changes), fetch=True)
    assert attempt.running
    assert attempt.running
    (lease,) = (tmp_path / "run").glob(".lease-*")
    lease.with_name(".lease-9").write_text(lease.read_text())
    converse(attempt)
    assert "is now held by" in attempt.end_reason()
    assert node.asked[-2:] == ["clean_up", "kill"], "the node ends the run and clears it away"
    assert not (tmp_path / "run" / "status.json").exists()
