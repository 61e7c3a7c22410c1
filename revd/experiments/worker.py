"""What the launcher starts: one training in a process of its own, its config read from standard input."""

import signal
import sys
from types import FrameType

from revd.experiments.config import TrainConfig


def main() -> None:
    """Train, and treat being asked to end as an interrupt, so that the run directory says what happened."""
    signal.signal(signal.SIGTERM, _stop)
    config = TrainConfig.from_json(sys.stdin.read())
    from revd.experiments.run import train

    train(config)


def _stop(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
