import os
import shutil
import tempfile
from contextlib import chdir

import pytest


@pytest.fixture(scope="module")
def ray_home():
    """A directory for Ray's own files, short enough for its sockets, and away from other clusters of this machine."""
    pytest.importorskip("ray", reason="Ray has no release for this version of Python")
    home = tempfile.mkdtemp(prefix="ray-")
    os.mkdir(os.path.join(home, "ray"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", home)
        patch.setenv("TMPDIR", home)  # for what nodes leave behind when they are killed
        yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="module")
def make_cluster(ray_home):
    """A function that starts a real cluster with one node for each of the given numbers of CPUs, and connects to it."""
    import ray
    from ray.cluster_utils import Cluster

    clusters = []

    def make(*cpus, **options):
        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": cpus[0], "include_dashboard": False, **options}
        )
        clusters.append(cluster)
        nodes = [cluster.head_node, *(cluster.add_node(num_cpus=number) for number in cpus[1:])]
        # As the launcher does: nodes would import from the current directory.
        with chdir("/"):
            ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        return cluster, nodes

    yield make
    ray.shutdown()
    for cluster in clusters:
        cluster.shutdown()
