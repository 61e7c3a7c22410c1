"""What a launcher starts: one training in a process of its own, its config read from standard input."""

import argparse
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

from revd.runs.config import TrainConfig
from revd.runs.termination import interrupt_on_termination
from revd.suites.backends.file_transfer import elsewhere

#: Between two tries to get a run that another process has.
SECONDS_BETWEEN_TRIES = 2.0


def main() -> None:
    """Train, and treat being asked to end as an interrupt, so that the run directory says what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, help="directory of the run, if not the one that its config names")
    parser.add_argument("--patience", type=float, default=0.0, help="seconds to wait for a run that another still has")
    given = parser.parse_args()
    with interrupt_on_termination():
        config = TrainConfig.from_json(sys.stdin.readline())
        threading.Thread(target=_end_with_launcher, daemon=True).start()
        _train(config if given.place is None else elsewhere(config, given.place), given.patience)


def _train(config: TrainConfig, patience: float) -> None:
    """Train. On a cluster, the one before may not know yet that it is lost, and still write for a while."""
    from revd.runs.train import train

    deadline = time.monotonic() + patience
    while True:
        try:
            train(config)
            return
        except FileExistsError as error:
            if time.monotonic() >= deadline:
                raise
            warnings.warn(f"{error}; it is tried again", stacklevel=2)
            time.sleep(SECONDS_BETWEEN_TRIES)


def _end_with_launcher() -> None:
    """The launcher holds the other end of standard input: its end means that nobody watches any more."""
    while sys.stdin.readline():
        continue
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
