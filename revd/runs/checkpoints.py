"""The checkpoints of a run: the newest two, each one file with a checksum."""

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
    """Snapshots of a training, named after the steps taken by then.

    Args:
        path: Their directory; made with the first checkpoint.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def newest_steps(self) -> int | None:
        """Steps of the newest checkpoint, readable or not; None without one."""
        newest = next(iter(self._newest_first()), None)
        return None if newest is None else _steps(newest)

    def write(self, steps: int, snapshot: Snapshot) -> None:
        """Add a checkpoint, then delete all but the newest `KEPT`: if one is damaged, the one before it is left."""
        # Imported here and below because it loads torch, which takes seconds and is not needed to look at runs.
        from revd.storage.tensor_file import write_tensors

        make_directory(self.path)
        write_tensors(self.path / f"steps-{steps:012d}.safetensors", *snapshot)
        for path in self._newest_first()[KEPT:]:
            path.unlink()

    def newest(self) -> Snapshot | None:
        """Read the newest checkpoint that is not damaged; None if there are no checkpoints.

        Warns of damaged ones. A ValueError if all are damaged: starting anew would discard the logs.
        """
        from revd.storage.tensor_file import read_tensors

        damages = []
        for path in self._newest_first():
            try:
                snapshot = read_tensors(path)
            except (ValueError, OSError) as error:
                damages.append(str(error))
                continue
            for damage in damages:
                warnings.warn(f"a checkpoint cannot be used, the one before it is restored: {damage}", stacklevel=2)
            return snapshot
        if damages:
            raise ValueError(
                f"no checkpoint in {str(self.path)!r} can be used ({'; '.join(damages)}); "
                "put back a good copy, or choose another --output to start anew"
            )
        return None

    def set_aside(self, *, newer_than: int) -> None:
        """Rename checkpoints after more than `newer_than` steps to `damaged.…`: the resumed training writes its own.

        They are damaged now, but might be readable later, and hold steps that were taken again since.
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
