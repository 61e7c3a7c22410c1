"""SB3's logger writing TensorBoard events that a resumed training continues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stable_baselines3.common.logger import KVWriter, TensorBoardOutputFormat
from torch.utils.tensorboard import SummaryWriter

if TYPE_CHECKING:
    from pathlib import Path


class EventLog(KVWriter):
    """Like SB3's TensorBoard output, but with one file for each session that logs anything.

    Args:
        directory: The directory of the event files.
        resumed_at: Steps already done. TensorBoard hides what earlier sessions logged after them.
    """

    def __init__(self, directory: Path, *, resumed_at: int) -> None:
        self._directory = directory
        self._resumed_at = resumed_at
        self._output: TensorBoardOutputFormat | None = None

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write every value that is not excluded from TensorBoard, at `step`."""
        if self._output is None:
            self._output = self._open()
        self._output.write(key_values, key_excluded, step)

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._output is not None:
            self._output.close()

    def _open(self) -> TensorBoardOutputFormat:
        continues = any(self._directory.glob("events.out.tfevents.*"))
        return _Events(SummaryWriter(str(self._directory), purge_step=self._resumed_at + 1 if continues else None))


class _Events(TensorBoardOutputFormat):
    """SB3's output with a given writer; SB3's own writer does not hide the steps of earlier sessions."""

    def __init__(self, writer: SummaryWriter) -> None:
        self.writer = writer
        self._is_closed = False
