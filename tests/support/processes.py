"""What the system knows about processes."""

from contextlib import suppress
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process is at work; a dead one whose parent has not asked yet is not."""
    return _stat(pid)[:1] not in ([], ["Z"])


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    numbers = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    children = [number for number in numbers if _stat(number)[1:2] == [str(pid)]]
    return [pid, *(member for child in children for member in family(child))]


def _stat(pid: int) -> list[str]:
    """State, parent and more; nothing if there is no such process."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []
