"""`revd` commands as processes that can be killed."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

from revd import cli

REVD = (sys.executable, "-m", "revd")
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["torch._dynamo", "revd.runs.train", "tests.faults.commands"])


def start(words: list[str], root: Path) -> subprocess.Popen[bytes]:
    """The command itself, in the directory `root`; what it says goes to `said.txt` there."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (root / "said.txt").open("ab") as log:
        return subprocess.Popen([*REVD, *words], cwd=root, stdout=log, stderr=log, env=environment)


def run_command(words: list[str], root: Path) -> None:
    """`revd WORDS…` in this process, with its output in the lane's log."""
    os.chdir(root)
    log = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    cli.main(words)


class Forked:
    """A command in a process of multiprocessing's fork server, with what is used here of subprocess.Popen."""

    def __init__(self, words: list[str], root: Path) -> None:
        self.args = words
        self._process = FORKS.Process(target=run_command, args=(words, root))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self._process.exitcode


Process = Forked | subprocess.Popen[bytes]
