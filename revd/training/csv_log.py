"""SB3's logger writing to a CSV file that a resumed training goes on with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stable_baselines3.common.logger import KVWriter

if TYPE_CHECKING:
    from revd.storage.csv_file import CsvFile

#: Counts from 1 in every call of learn(), so that a resumed run would repeat it.
_RESTARTS = "time/iterations"
STEPS = "time/total_timesteps"


class CsvLog(KVWriter):
    """Like SB3's own CSV output, but appending, and with columns in a fixed order.

    Args:
        file: Where the rows go.
    """

    def __init__(self, file: CsvFile) -> None:
        self._file = file

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """One row: every number that is not excluded from CSV."""
        self._file.append(
            {
                name: value
                for name, value in sorted(key_values.items())
                if name != _RESTARTS and "csv" not in (key_excluded.get(name) or ())
            }
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()
