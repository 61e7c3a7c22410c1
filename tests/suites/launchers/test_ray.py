import signal
import socket

import pytest

from revd.runs.config import TrainConfig

ray = pytest.importorskip("ray", reason="Ray has no release for this version of Python")

from revd.suites.launchers.ray import RayLauncher  # noqa: E402


class FakeRay:
    """A connection that costs nothing."""

    def __init__(self, monkeypatch, *nodes, error=None):
        self.calls = []
        self.error = error
        self.checked = []
        monkeypatch.setattr("revd.suites.launchers.ray.require_worker", self.checked.extend)
        monkeypatch.setattr("ray.is_initialized", lambda: False)
        monkeypatch.setattr("ray.init", self.init)
        monkeypatch.setattr("ray.shutdown", lambda: self.calls.append("shutdown"))
        monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True, "Resources": node} for node in nodes])
        totals = {name: sum(node.get(name, 0) for node in nodes) for name in ("CPU", "GPU")}
        monkeypatch.setattr("ray.cluster_resources", lambda: totals)

    def init(self, **options):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Ray sets a handler of its own
        if self.error is not None:
            raise self.error
        self.calls.append(options)


def test_a_launcher_connects_and_leaves_everything_as_it_was(monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    fake = FakeRay(monkeypatch, {"CPU": 4.0}, {"CPU": 4.0, "GPU": 1.0})
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        with RayLauncher(address=address, gpus_per_run=0.25) as launcher:
            assert str(launcher) == "a Ray cluster of 2 nodes, 8 CPUs, 1 GPUs"
    assert fake.calls[0]["address"] == address
    assert fake.calls[1:] == ["shutdown"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_nodes_that_can_have_runs_are_asked_whether_they_can_start_them(monkeypatch):
    fake = FakeRay(monkeypatch, {"CPU": 0.0}, {"CPU": 4.0})
    with RayLauncher(address="local"):
        assert [node["Resources"] for node in fake.checked] == [{"CPU": 4.0}]


def test_a_connection_is_closed_when_a_node_cannot_start_runs(monkeypatch):
    fake = FakeRay(monkeypatch, {"CPU": 4.0})

    def refuse(nodes):
        raise ValueError("runs cannot be started")

    monkeypatch.setattr("revd.suites.launchers.ray.require_worker", refuse)
    with pytest.raises(ValueError, match="runs cannot be started"), RayLauncher(address="local"):
        pass
    assert fake.calls[1:] == ["shutdown"]


def test_a_connection_that_is_there_is_used_and_kept(monkeypatch):
    fake = FakeRay(monkeypatch, {"CPU": 2.0})
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    with RayLauncher() as launcher:
        assert str(launcher) == "a Ray cluster of 1 node, 2 CPUs, 0 GPUs"
    assert fake.calls == []


def test_a_cluster_that_cannot_be_reached(monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    FakeRay(monkeypatch, error=ConnectionError("no reply"))
    with (
        pytest.raises(ValueError, match=r"no Ray cluster can be reached at address 'local' \(no reply\)"),
        RayLauncher(address="local"),
    ):
        pass
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_address_without_a_cluster(monkeypatch):
    fake = FakeRay(monkeypatch)
    with (
        pytest.raises(ValueError, match=r"no Ray cluster can be reached at address '127\.0\.0\.1:1' .*refused"),
        RayLauncher(address="127.0.0.1:1"),
    ):
        pass
    assert fake.calls == []


def test_a_cluster_that_is_no_more_is_not_waited_for(monkeypatch, tmp_path):
    fake = FakeRay(monkeypatch)
    said = r"no Ray cluster can be reached at address 'auto' \(127\.0\.0\.1:1: .*refused"
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ValueError, match=said), RayLauncher():
        pass
    monkeypatch.delenv("RAY_ADDRESS")
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", set)
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda home: "127.0.0.1:1")
    with pytest.raises(ValueError, match=said), RayLauncher():
        pass
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda home: None)
    with pytest.raises(ValueError, match="Could not find any running Ray instance"), RayLauncher():
        pass
    assert fake.calls == [], "Ray itself would try for minutes"


def test_runs_that_no_node_has_room_for_wait_with_a_warning(monkeypatch):
    FakeRay(monkeypatch, {"CPU": 4.0}, {"CPU": 1.0, "GPU": 1.0})
    with (
        pytest.warns(UserWarning, match="no node of the Ray cluster has 2 CPUs and 1 GPUs: runs wait until one joins"),
        RayLauncher(address="local", cpus_per_run=2, gpus_per_run=1),
    ):
        pass


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cpus_per_run": 0}, "cpus_per_run must be a number above 0, got 0"),
        ({"gpus_per_run": -1}, "gpus_per_run must be 0, a fraction of 1, or a whole number, got -1"),
        ({"gpus_per_run": float("nan")}, "gpus_per_run must be 0, a fraction of 1, or a whole number, got nan"),
        ({"gpus_per_run": 1.5}, "gpus_per_run must be 0, a fraction of 1, or a whole number, got 1.5"),
    ],
)
def test_wrong_numbers(options, said):
    with pytest.raises(ValueError, match=said):
        RayLauncher(**options)


def test_a_run_that_begins_from_another_must_say_where_that_is(monkeypatch, tmp_path):
    FakeRay(monkeypatch, {"CPU": 4.0})
    config = TrainConfig(task="a", output=tmp_path / "run", init_from=tmp_path.relative_to("/"))
    with (
        RayLauncher(address="local") as launcher,
        pytest.raises(ValueError, match="init_from must be an absolute path that all nodes see"),
    ):
        launcher.start(config)


def test_runs_are_started_while_the_launcher_is_open(monkeypatch, tmp_path):
    FakeRay(monkeypatch, {"CPU": 4.0})
    launcher = RayLauncher(address="local")
    with launcher:
        pass
    with pytest.raises(RuntimeError, match="use it as a context manager"):
        launcher.start(TrainConfig(task="a", output=tmp_path / "run"))
