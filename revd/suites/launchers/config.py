"""Where runs are started, as options of the command line."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from revd.suites.launchers.interface import Launcher
from revd.suites.launchers.local import LocalLauncher


@dataclass(frozen=True, kw_only=True)
class LauncherConfig:
    """Where runs are started."""

    launcher: Literal["local", "ray"] = "local"
    """Processes of this machine, or the nodes of a Ray cluster."""
    address: str = "auto"
    """Ray: HOST:PORT of the cluster; auto for the one this machine is part of, local for one of this machine alone."""
    cpus_per_run: float = 1.0
    """Ray: CPUs that are reserved for each run."""
    gpus_per_run: float = 0.0
    """Ray: GPUs of each run; with 0.25, four runs share one."""
    fetch: bool = False
    """Ray: nodes write to their own disks, and the files are fetched. Without it, all nodes must see the output."""

    def open(self) -> AbstractContextManager[Launcher]:
        """The launcher, as a context manager. A ValueError names what is missing or contradictory."""
        if self.launcher == "local":
            if self != LauncherConfig():
                raise ValueError("address, cpus_per_run, gpus_per_run and fetch are for launcher 'ray'")
            return nullcontext(LocalLauncher())
        if find_spec("ray") is None:
            raise ValueError("launcher 'ray' needs Ray: pip install 'revd[ray]'")
        from revd.suites.launchers.ray import RayLauncher

        return RayLauncher(
            address=self.address, cpus_per_run=self.cpus_per_run, gpus_per_run=self.gpus_per_run, fetch=self.fetch
        )
