"""The checkpoints of a run: the newest two, each one file with a checksum, replaced as a whole."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from revd.storage.atomic import make_directory

if TYPE_CHECKING:
    from revd.training.snapshot import Snapshot

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
    def newest_steps(self) -> int | None:
        """The steps of the newest, readable or not; None if there is none."""
        newest = next(iter(self._newest_first()), None)
        return None if newest is None else _steps(newest)

    def write(self, steps: int, snapshot: Snapshot) -> None:
        """Add a checkpoint, then drop all but the newest `KEPT`: a damaged one leaves another to go back to."""
        # Loads torch, which those who only look at runs need not wait for; so below.
        from revd.storage.tensor_file import write_tensors

        make_directory(self.path)
        write_tensors(self.path / f"steps-{steps:012d}.safetensors", *snapshot)
        for path in self._newest_first()[KEPT:]:
            path.unlink()

    def newest(self) -> Snapshot | None:
        """
        The newest that can be read; None if there is none. A damaged one is reported and passed over.

        A ValueError if none of them can be read: to begin anew would throw away what the logs hold.
        """
        from revd.storage.tensor_file import read_tensors

        paths = self._newest_first()
        damages = []
        for path in paths:
            try:
                snapshot = read_tensors(path)
            except (ValueError, OSError) as error:
                damages.append(str(error))
                continue
            for damage in damages:
                warnings.warn(f"a checkpoint cannot be used, the one before is taken: {damage}", stacklevel=2)
            return snapshot
        if damages:
            raise ValueError(
                f"no checkpoint in {str(self.path)!r} can be used ({'; '.join(damages)}); "
                "put a good one back, or choose another --output to begin anew"
            )
        return None

    def set_aside(self, *, newer_than: int) -> None:
        """
        Rename those after so many steps to `damaged.…`: a training that goes on from before them will make its own.

        One that could not be read today might be readable tomorrow, and would then belong to another past.
        """
        for path in self._newest_first():
            if _steps(path) > newer_than:
                path.rename(path.with_name(f"damaged.{path.name}"))

    def _newest_first(self) -> list[Path]:
        if not self.path.is_dir():
            return []
        return sorted((path for path in self.path.iterdir() if _NAME.fullmatch(path.name)), key=_steps, reverse=True)


def _steps(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1])
