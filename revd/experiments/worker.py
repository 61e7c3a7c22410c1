"""What the launcher starts: one training in a process of its own, its config read from standard input."""

import os
import signal
import sys
import threading

from revd.experiments.config import TrainConfig
from revd.experiments.termination import interrupt_on_termination


def main() -> None:
    """Train, and treat being asked to end as an interrupt, so that the run directory says what happened."""
    with interrupt_on_termination():
        config = TrainConfig.from_json(sys.stdin.readline())
        threading.Thread(target=_end_with_launcher, daemon=True).start()
        from revd.experiments.run import train

        train(config)


def _end_with_launcher() -> None:
    """The launcher holds the other end of standard input: its end means that nobody watches any more."""
    while sys.stdin.readline():
        continue
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
