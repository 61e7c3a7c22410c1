"""A node of a real cluster is killed in the middle of a suite."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.parameters import Parameters
from revd.suites.scheduler import train_all
from tests.faults.records import Findings, examine
from tests.support.processes import process_tree

ROLLOUT = 64
SEEDS = (1, 2)
#: Ray takes half a minute to declare a node dead, unless these are shorter.
QUICK = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}


def config(tmp_path, seed):
    return TrainConfig(
        task="CartPole-v1",
        reward="revd",
        steps=60 * ROLLOUT,
        seed=seed,
        n_envs=2,
        checkpoint_every=5 * ROLLOUT,
        output=tmp_path / f"run-{seed}",
        algo_params=Parameters(n_steps=32, n_epochs=4),
    )


def trained_by(pid):
    """The seed of the run that a process trains; None for other processes."""
    # A process that ends, or a run that has not begun.
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        if "--directory" in words:
            return json.loads((Path(words[words.index("--directory") + 1]) / "config.json").read_text())["seed"]
    return None


class NodeKiller:
    """Watches runs, and kills a node with everything on it once the run that it trains has left a checkpoint."""

    def __init__(self, cluster, node):
        self.cluster = cluster
        self.node = node
        self.raylet = node.all_processes["raylet"][0].process.pid
        self.lost = None

    def __call__(self, runs):
        if self.lost is not None:
            return
        victims = process_tree(self.raylet)
        for seed in filter(None, map(trained_by, victims)):
            (directory,) = (RunDirectory(run.config.directory) for run in runs if run.config.seed == seed)
            if directory.checkpoints.newest_steps is not None and directory.read_status().state == "running":
                self.kill(victims)
                self.lost = seed, directory.checkpoints.newest_steps
                return

    def kill(self, victims):
        self.cluster.remove_node(self.node, allow_graceful=False)
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def cluster(make_cluster):
    cluster, _ = make_cluster(0, 1, _system_config=QUICK)
    return cluster


@pytest.mark.parametrize("fetch", [False, True], ids=["shared", "fetched"])
def test_a_suite_is_complete_though_a_node_dies_in_the_middle(tmp_path, cluster, fetch):
    from revd.suites.launchers.ray import RayLauncher

    every = [config(tmp_path, seed) for seed in SEEDS]
    killer = NodeKiller(cluster, cluster.add_node(num_cpus=1))
    with RayLauncher(fetch=fetch) as launcher:
        runs = train_all(every, jobs=len(every), watch=killer, interval=0.05, launcher=launcher)

    assert [(run.status.state, run.status.error) for run in runs] == [("finished", None)] * len(SEEDS)
    seed, steps = killer.lost
    findings = Findings()
    for each in every:
        examine(each.directory, ROLLOUT, findings)
        sessions = json.loads((each.directory / "run.json").read_text()).get("resumed", [])
        assert len(sessions) == (each.seed == seed), "only the lost one was begun a second time"
        # Changes with the next checkpoint may have been on its way when the node died.
        assert all(session["steps"] >= steps for session in sessions)
    assert findings.clean, findings
    assert findings.runs == len(SEEDS)
