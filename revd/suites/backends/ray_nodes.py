"""The nodes of a Ray cluster: what they have, and whether runs can be started there."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import ray
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

Node = Mapping[str, Any]
#: For all nodes together: each starts a process that imports revd.
SECONDS_TO_IMPORT = 60.0


def living_nodes() -> list[Node]:
    """As Ray describes them."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def has_room(node: Node, needs: Mapping[str, float]) -> bool:
    """Whether it has what a run needs, if nothing else runs there."""
    return all(node["Resources"].get(name, 0) >= need for name, need in needs.items())


def require_worker(nodes: Sequence[Node]) -> None:
    """Raise a ValueError that names the nodes which cannot start a run: they would fail one after the other."""
    # No CPU of its own: nodes that are busy answer too.
    probe = ray.remote(num_cpus=0, max_retries=0)(import_worker)
    answers = [
        probe.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        for node in nodes
    ]
    came, _ = ray.wait(answers, num_returns=len(answers), timeout=SECONDS_TO_IMPORT) if answers else ([], [])
    told = [_trouble(answer) if answer in came else "it does not answer" for answer in answers]
    troubles = [f"{_name(node)} ({words})" for node, words in zip(nodes, told, strict=True) if words is not None]
    if troubles:
        raise ValueError(
            f"runs cannot be started on {len(troubles)} of {len(nodes)} nodes: {'; '.join(troubles)}; install the same "
            "revd there as here, or take these nodes from the cluster"
        )


def import_worker() -> None:
    """On a node: import what a run's process begins with."""
    import_module("revd.runs.worker")


def _trouble(answer: Any) -> str | None:
    """What is wrong with a node; nothing, if it can import revd or was lost meanwhile, as nodes are."""
    try:
        ray.get(answer)
    except RayTaskError as error:
        return str(error).strip().splitlines()[-1]
    except ray.exceptions.RayError:
        return None
    return None


def _name(node: Node) -> str:
    return f"{node['NodeManagerHostname']} at {node['NodeManagerAddress']}"
