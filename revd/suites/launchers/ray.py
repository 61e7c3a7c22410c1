"""Runs on the nodes of a Ray cluster, each in a process that an actor starts there."""

import logging
import math
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from typing import Any, Self

import ray
from ray._private.services import get_ray_address_from_environment

from revd.runs.config import TrainConfig
from revd.suites.launchers.node import NodeRun
from revd.suites.launchers.ray_attempt import RayAttempt
from revd.suites.launchers.ray_nodes import has_room, living_nodes, require_worker

SECONDS_TO_ANSWER = 10.0


class RayLauncher:
    """Starts each run on a node that has room for it, within a `with` block.

    Args:
        address: "auto" for the cluster that this machine is part of, HOST:PORT, or "local" for one that is started here
            and ends with the context. If Ray is already connected, that connection is used.
        cpus_per_run: CPUs that Ray reserves for a run.
        gpus_per_run: GPUs of a run, or a fraction of one to let several runs share it; with 0, runs see none.
        fetch: Whether the nodes write to their own disks. Then files are fetched to this machine with each checkpoint.
            Without it, all nodes must see the runs' directories under the same path.
        worker: Command of a process that reads a config from its standard input; by default each node's own.
    """

    def __init__(
        self,
        *,
        address: str = "auto",
        cpus_per_run: float = 1.0,
        gpus_per_run: float = 0.0,
        fetch: bool = False,
        worker: Sequence[str] | None = None,
    ) -> None:
        if not 0 < cpus_per_run < math.inf:
            raise ValueError(f"cpus_per_run must be a number above 0, got {cpus_per_run}")
        if not 0 <= gpus_per_run < math.inf or (gpus_per_run > 1 and gpus_per_run % 1):
            raise ValueError(f"gpus_per_run must be 0, a fraction of 1, or a whole number, got {gpus_per_run}")
        self._address = address
        self._fetch = fetch
        self._needs = {"CPU": cpus_per_run, "GPU": gpus_per_run}
        # Ray must not restart a lost actor: the scheduler resumes the run from its last checkpoint.
        actors: Any = ray.remote(num_cpus=cpus_per_run, num_gpus=gpus_per_run, max_restarts=0)(NodeRun)
        self._new_actor: Callable[[], Any] = lambda: actors.remote(worker, gpus=gpus_per_run > 0)
        self._connection: ExitStack | None = None

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.enter_context(_connected(self._address))
            nodes = [node for node in living_nodes() if has_room(node, self._needs)]
            if not nodes:
                self._warn_of_missing_room()
            require_worker(nodes)
            self._connection = opening.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._connection is not None
        self._connection.close()
        self._connection = None

    def __str__(self) -> str:
        nodes, total = living_nodes(), ray.cluster_resources()
        number = f"{len(nodes)} node" + ("" if len(nodes) == 1 else "s")
        return f"a Ray cluster of {number}, {total.get('CPU', 0):g} CPUs, {total.get('GPU', 0):g} GPUs"

    def start(self, config: TrainConfig) -> RayAttempt:
        """Queue the run. A ValueError if it cannot be started; later errors are the attempt's `end_reason`."""
        if self._connection is None:
            raise RuntimeError("a RayLauncher starts runs while it is open: use it as a context manager")
        if config.init_from is not None and not config.init_from.is_absolute():
            raise ValueError(
                f"init_from must be an absolute path that all nodes see, got {str(config.init_from)!r}: nodes do not "
                "know the directory in which this command runs"
            )
        return RayAttempt(self._new_actor(), config, fetch=self._fetch)

    def _warn_of_missing_room(self) -> None:
        """Warn only, since a cluster that grows on demand may add such a node."""
        needs = " and ".join(f"{need:g} {name}s" for name, need in self._needs.items() if need)
        warnings.warn(f"no node of the Ray cluster has {needs}: runs wait until one joins that has", stacklevel=3)


@contextmanager
def _connected(address: str) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    with _keeping_sigterm_handler():
        try:
            _require_answer(_resolved(address))
            # Ray's workers import from the current directory, which may contain untrusted runs.
            with chdir("/"):
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"no Ray cluster can be reached at address {address!r} ({error}); start one with `ray start --head`, "
                "or give the address local to use this machine alone"
            ) from error
        try:
            yield
        finally:
            ray.shutdown()


def _resolved(address: str) -> str:
    """Resolve "auto" as Ray does: RAY_ADDRESS, a cluster on this machine, or the last one it was part of."""
    return str(get_ray_address_from_environment(address, None)) if address == "auto" else address


def _require_answer(address: str) -> None:
    """Raise an OSError if no process listens at HOST:PORT: Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in address:
        try:
            socket.create_connection((host, min(int(port), 65535)), timeout=SECONDS_TO_ANSWER).close()
        except OSError as error:
            raise ConnectionError(f"{address}: {error}") from error


@contextmanager
def _keeping_sigterm_handler() -> Iterator[None]:
    """Restore the handler of SIGTERM, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
