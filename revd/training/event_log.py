"""SB3's logger writing TensorBoard events that a resumed training continues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stable_baselines3.common.logger import KVWriter, TensorBoardOutputFormat
from torch.utils.tensorboard import SummaryWriter

if TYPE_CHECKING:
    from pathlib import Path


class EventLog(KVWriter):
    """Like SB3's own TensorBoard output, but one file for each session that logs anything.

    Args:
        directory: Where the files of events are.
        resumed_at: Steps that are done. TensorBoard hides what earlier sessions logged after them.
    """

    def __init__(self, directory: Path, *, resumed_at: int) -> None:
        self._directory = directory
        self._resumed_at = resumed_at
        self._output: TensorBoardOutputFormat | None = None

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Everything that is not excluded from TensorBoard, as of `step`."""
        if self._output is None:
            self._output = self._open()
        self._output.write(key_values, key_excluded, step)

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._output is not None:
            self._output.close()

    def _open(self) -> TensorBoardOutputFormat:
        goes_on = any(self._directory.glob("events.out.tfevents.*"))
        return _Events(SummaryWriter(str(self._directory), purge_step=self._resumed_at + 1 if goes_on else None))


class _Events(TensorBoardOutputFormat):
    """SB3's output into a given writer; SB3 itself would make one that purges nothing."""

    def __init__(self, writer: SummaryWriter) -> None:
        self.writer = writer
        self._is_closed = False
