"""The checkpoints of a run: the newest two, each one file, replaced as a whole."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from revd.tensorfile import read_tensors, write_tensors

if TYPE_CHECKING:
    from revd.sb3.snapshot import Snapshot

KEPT = 2
_NAME = re.compile(r"steps-(\d+)\.safetensors")


class Checkpoints:
    """Snapshots of a training by the number of steps after which they were taken.

    Args:
        path: The directory that holds them; made with the first one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exist(self) -> bool:
        """Whether there is any."""
        return bool(self._newest_first())

    def write(self, steps: int, snapshot: Snapshot) -> None:
        """Add a checkpoint, then drop all but the newest `KEPT`: a damaged one leaves another to go back to."""
        self.path.mkdir(exist_ok=True)
        write_tensors(self.path / f"steps-{steps:012d}.safetensors", *snapshot)
        for path in self._newest_first()[KEPT:]:
            path.unlink()

    def newest(self) -> Snapshot | None:
        """The newest that can be read; None if there is none. A damaged one is reported and passed over."""
        for path in self._newest_first():
            try:
                return read_tensors(path)
            except ValueError as error:
                warnings.warn(f"a checkpoint cannot be used, the one before is taken: {error}", stacklevel=2)
        return None

    def _newest_first(self) -> list[Path]:
        if not self.path.is_dir():
            return []
        named = [path for path in self.path.iterdir() if _NAME.fullmatch(path.name)]
        return sorted(named, key=lambda path: path.name, reverse=True)
