"""The whole campaign, as `make faults` runs it: `python -m tests.faults`."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.campaign import campaign


def main() -> None:
    """The whole campaign; exit status 1 unless everything is as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train-kills", type=int, default=170)
    parser.add_argument("--aimed", type=int, default=110, help="of those, only once a checkpoint is being written")
    parser.add_argument("--suite-kills", type=int, default=40)
    parser.add_argument(
        "--width", type=int, default=1024, help="of the two hidden layers; large ones take long to write"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="keep the runs here")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        counts = campaign(
            given.output or Path(scratch) / "faults",
            train_kills=given.train_kills,
            aimed=given.aimed,
            suite_kills=given.suite_kills,
            width=given.width,
            seed=given.seed,
        )
    print("\n".join(counts.lines()))
    print(f"minutes                    {(time.monotonic() - began) / 60:5.1f}")
    if not counts.findings.clean:
        sys.exit(1)


if __name__ == "__main__":
    main()
