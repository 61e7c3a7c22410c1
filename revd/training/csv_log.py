"""SB3's logger writing to a CSV file that a resumed training continues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stable_baselines3.common.logger import KVWriter

if TYPE_CHECKING:
    from revd.storage.csv_file import CsvFile

#: Left out: it starts at 1 in every call of learn(), so a resumed run would repeat it.
_ITERATIONS = "time/iterations"
STEPS = "time/total_timesteps"


class CsvLog(KVWriter):
    """Like SB3's CSV output, but it appends and keeps the order of columns.

    Args:
        file: The CSV file.
    """

    def __init__(self, file: CsvFile) -> None:
        self._file = file

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write one row with every value that is not excluded from CSV."""
        self._file.append(
            {
                name: value
                for name, value in sorted(key_values.items())
                if name != _ITERATIONS and "csv" not in (key_excluded.get(name) or ())
            }
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()
