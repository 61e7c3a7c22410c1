"""Nodes of a real cluster that cannot start runs."""

import pytest

pytest.importorskip("ray", reason="Ray has no release for this version of Python")

from revd.suites.launchers import ray_nodes
from revd.suites.launchers.ray import RayLauncher


@pytest.fixture(scope="module")
def cluster(make_cluster):
    cluster, _ = make_cluster(1)
    return cluster


@pytest.fixture
def bad_node(cluster, tmp_path):
    """A second node on which `import revd` fails."""
    (tmp_path / "revd").mkdir()
    (tmp_path / "revd" / "__init__.py").write_text("raise ImportError('nothing of that name')")
    node = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
    yield node
    cluster.remove_node(node)


def test_a_node_without_revd_is_named_before_it_fails_one_run_after_the_other(bad_node):
    said = r"runs cannot be started on 1 of 2 nodes: \S+ at \S+ \(.*nothing of that name.*\); install the same revd"
    with pytest.raises(ValueError, match=said), RayLauncher():
        pass


def test_a_node_that_does_not_reply_is_named(cluster, monkeypatch):
    monkeypatch.setattr(ray_nodes, "SECONDS_TO_IMPORT", 0.0)
    with pytest.raises(ValueError, match=r"runs cannot be started on 1 of 1 nodes: .* \(it does not answer\)"):
        ray_nodes.require_worker(ray_nodes.living_nodes())


def test_a_node_lost_during_the_check_is_no_error(cluster):
    (node,) = ray_nodes.living_nodes()
    ray_nodes.require_worker([{**node, "NodeID": "a" * len(node["NodeID"])}])
    ray_nodes.require_worker([])
