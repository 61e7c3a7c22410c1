"""The process in which a launcher runs one training. It reads the config from its standard input."""

import argparse
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

from revd.runs.config import TrainConfig
from revd.runs.directory import RunDirectory
from revd.runs.termination import interrupt_on_termination

SECONDS_BETWEEN_TRIES = 2.0


def main() -> None:
    """Train. SIGTERM interrupts the training, and the run directory records it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, help="directory of the run, instead of the one in its config")
    parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for a run that another process holds")
    given = parser.parse_args()
    with interrupt_on_termination():
        config = TrainConfig.from_json(sys.stdin.readline())
        threading.Thread(target=_end_with_launcher, daemon=True).start()
        _train(config, RunDirectory(given.directory or config.directory), given.wait)


def _train(config: TrainConfig, run: RunDirectory, wait: float) -> None:
    """Train. While another process holds the run, try again for `wait` seconds.

    On a cluster, an earlier worker may have lost its connection and still write for a while.
    """
    from revd.runs.train import train_in

    deadline = time.monotonic() + wait
    while True:
        try:
            train_in(run, config)
            return
        except FileExistsError as error:
            if time.monotonic() >= deadline:
                raise
            warnings.warn(f"{error}; trying again", stacklevel=2)
            time.sleep(SECONDS_BETWEEN_TRIES)


def _end_with_launcher() -> None:
    """Terminate this process when its standard input ends: the launcher, which holds the other end, is gone."""
    while sys.stdin.readline():
        continue
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
