"""The nodes of a Ray cluster: their resources, and whether runs can be started on them."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import ray
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

Node = Mapping[str, Any]
#: For all nodes together. Each starts a process that imports revd.
SECONDS_TO_IMPORT = 60.0


def living_nodes() -> list[Node]:
    """Nodes that are connected, as Ray describes them."""
    return [node for node in ray.nodes() if node["Alive"]]


def has_room(node: Node, needs: Mapping[str, float]) -> bool:
    """Whether the node has the resources that a run needs, other runs aside."""
    return all(node["Resources"].get(name, 0) >= need for name, need in needs.items())


def require_worker(nodes: Sequence[Node]) -> None:
    """Raise a ValueError that names the nodes that cannot start runs; every run there would fail."""
    # Without a CPU, so that busy nodes answer too.
    probe = ray.remote(num_cpus=0, max_retries=0)(import_worker)
    answers = [
        probe.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        for node in nodes
    ]
    received, _ = ray.wait(answers, num_returns=len(answers), timeout=SECONDS_TO_IMPORT) if answers else ([], [])
    errors = [_import_error(answer) if answer in received else "it does not answer" for answer in answers]
    failed = [f"{_name(node)} ({error})" for node, error in zip(nodes, errors, strict=True) if error is not None]
    if failed:
        raise ValueError(
            f"runs cannot be started on {len(failed)} of {len(nodes)} nodes: {'; '.join(failed)}; install the same "
            "revd there as here, or remove these nodes from the cluster"
        )


def import_worker() -> None:
    """Import the worker's module, on a node."""
    import_module("revd.runs.worker")


def _import_error(answer: Any) -> str | None:
    """Why a node cannot import revd; None if it can, or if the node was lost meanwhile."""
    try:
        ray.get(answer)
    except RayTaskError as error:
        return str(error).strip().splitlines()[-1]
    except ray.exceptions.RayError:
        return None
    return None


def _name(node: Node) -> str:
    return f"{node['NodeManagerHostname']} at {node['NodeManagerAddress']}"
