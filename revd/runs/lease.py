"""Which process may write into a run: a lease with a heartbeat, which works on disks that several machines share.

The lease of a run is the newest of the files `.lease-NUMBER` in its directory. Its content names its owner (machine,
process, a random token). Its modification time is the heartbeat: a thread of the holder updates it every
`SECONDS_BETWEEN_BEATS`. To release the lease, the holder renames it to `.lease-NUMBER-free`. A process that wants the
run reads the newest file and takes the next number if the holder has released it, has died (known at once for a
process of this machine), or has sent no heartbeat for `SECONDS_UNTIL_TAKEOVER` on the waiting process's clock. Clocks
of different machines are never compared.

A process takes a number by creating its file, in which only one of several processes succeeds. The number counts only
if no greater one exists afterwards. Numbers never decrease, so a process that was suspended while taking one cannot
push out a process that came meanwhile. A holder that was silent for too long and has lost its lease learns it at its
next `check`, and must stop.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

SECONDS_BETWEEN_BEATS = 10.0
SECONDS_UNTIL_TAKEOVER = 60.0
#: While waiting for a heartbeat of another machine's process.
SECONDS_BETWEEN_LOOKS = 0.2
_FREE = "-free"
_NAME = re.compile(rf"\.lease-(\d+)(?:{_FREE})?")


class LeaseLostError(RuntimeError):
    """Another process has taken over the run; this one must stop writing to it."""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The process that holds a lease.

    Attributes:
        host: The machine's name, for messages.
        machine: Identifies the machine, its boot and its container, within which process ids are unique.
        pid: The process id.
        started: When the process started, since process ids are reused.
        token: Random, so that no two leases are equal.
    """

    host: str
    machine: str
    pid: int
    started: str
    token: str

    @classmethod
    def me(cls) -> Owner:
        """This process, with a new token."""
        pid = os.getpid()
        return cls(host=socket.gethostname(), machine=_machine(), pid=pid, started=_start(pid) or "", token=uuid4().hex)

    @property
    def is_local(self) -> bool:
        """Whether the process runs on this machine, so that its state is known."""
        return self.machine == _machine()

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs; valid only for a local one."""
        return _start(self.pid) in (self.started, "")

    @classmethod
    def from_json(cls, text: str) -> Owner:
        """Read the content of a lease; a ValueError if it is something else."""
        try:
            owner = cls(**json.loads(text))
        except (TypeError, RecursionError) as error:
            raise ValueError("no lease") from error
        if type(owner.pid) is not int or not 0 < owner.pid < 2**31:
            raise ValueError("no process id")
        return owner

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True)
class _FoundLease:
    """The newest lease as it was read."""

    path: Path
    content: str
    beat: int

    @property
    def number(self) -> int:
        """Its number."""
        return _number(self.path.name)

    @property
    def owner(self) -> Owner | None:
        """The process that wrote it; None if the file is damaged, and only the heartbeat shows a living holder."""
        try:
            return Owner.from_json(self.content)
        except ValueError:
            return None

    @property
    def is_free(self) -> bool:
        owner = self.owner
        return self.path.name.endswith(_FREE) or (owner is not None and owner.is_local and not owner.is_alive)

    @property
    def is_decided(self) -> bool:
        """Whether it is known at once if the lease is free, without waiting for a heartbeat."""
        owner = self.owner
        return self.is_free or (owner is not None and owner.is_local)


class Lease:
    """A lease that this process holds, made by `lease`."""

    def __init__(self, path: Path, content: str) -> None:
        self._path = path
        self._content = content

    def check(self) -> None:
        """Raise a LeaseLostError if another process has taken over the run. Call it before files are replaced."""
        newest = _newest(self._path.parent)
        if newest is None or (newest.path, newest.content) != (self._path, self._content):
            taker = "nobody" if newest is None else newest.owner or "another process"
            raise LeaseLostError(
                f"the run in {str(self._path.parent)!r} is now held by {taker}: this process was silent for too long "
                "and must not write there any more"
            )

    def beat(self) -> None:
        """Update the heartbeat. Works on a full disk."""
        # If the file is gone, `check` raises later. Any other error may be over at the next beat.
        with suppress(OSError):
            os.utime(self._path)

    def release(self) -> None:
        """Release the lease, unless it is lost already. Works on a full disk."""
        with suppress(LeaseLostError, OSError):
            self.check()
            self._path.rename(self._path.with_name(self._path.name + _FREE))


@contextmanager
def lease(directory: Path, *, takeover_after: float | None = SECONDS_UNTIL_TAKEOVER) -> Iterator[Lease]:
    """Hold a run's directory, with a heartbeat in the background.

    Args:
        directory: The run.
        takeover_after: Seconds without a heartbeat after which another machine's lease is taken over. With None it is
            never taken over, and there is no waiting.

    Raises:
        FileExistsError: Another process holds the run.
    """
    held = _acquire(directory, takeover_after)
    ended = threading.Event()
    heartbeat = threading.Thread(target=_keep_beating, args=(held, ended), name="lease", daemon=True)
    heartbeat.start()
    try:
        yield held
    finally:
        ended.set()
        heartbeat.join()
        held.release()


def _keep_beating(held: Lease, ended: threading.Event) -> None:
    while not ended.wait(SECONDS_BETWEEN_BEATS):
        held.beat()


def _acquire(directory: Path, takeover_after: float | None) -> Lease:
    newest = _newest(directory)
    if newest is not None and not newest.is_decided:
        _await_silence(directory, newest, takeover_after)
    elif newest is not None and not newest.is_free:
        raise _held_error(directory, newest)
    path = directory / f".lease-{1 if newest is None else newest.number + 1}"
    content = json.dumps(asdict(Owner.me()))
    try:
        _create(path, content)
    except FileExistsError as error:
        raise _held_error(directory, _newest(directory)) from error
    winner = _newest(directory)
    if winner is None or winner.path != path:
        path.unlink(missing_ok=True)
        raise _held_error(directory, winner)
    for older in _names(directory)[:-1]:
        (directory / older).unlink(missing_ok=True)
    return Lease(path, content)


def _create(path: Path, content: str) -> None:
    with path.open("x") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            # The disk is full. An empty lease would make others wait for its heartbeat.
            path.unlink()
            raise


def _await_silence(directory: Path, found: _FoundLease, takeover_after: float | None) -> None:
    """Return after `takeover_after` seconds without a heartbeat; a FileExistsError at the first one."""
    if takeover_after is None:
        raise _held_error(directory, found)
    warnings.warn(
        f"{found.owner or 'another process'} has not released {str(directory)!r}; "
        f"the run is taken over after {takeover_after:.0f} seconds without a heartbeat",
        stacklevel=4,
    )
    deadline = time.monotonic() + takeover_after
    while time.monotonic() < deadline:
        time.sleep(SECONDS_BETWEEN_LOOKS)
        now = _newest(directory)
        if now != found:
            raise _held_error(directory, now)


def _held_error(directory: Path, found: _FoundLease | None) -> FileExistsError:
    owner = None if found is None else found.owner
    return FileExistsError(
        f"another process is training in {str(directory)!r}: {owner or 'it has just started'}; choose another "
        "--output, or wait until it ends"
    )


def _newest(directory: Path) -> _FoundLease | None:
    """Read the lease with the greatest number. Opening it makes a network disk ask its server."""
    while names := _names(directory):
        path = directory / names[-1]
        # If it is gone, it was just renamed or replaced: list the names again.
        with suppress(FileNotFoundError), path.open(errors="replace") as file:
            return _FoundLease(path, file.read(), os.fstat(file.fileno()).st_mtime_ns)
    return None


def _names(directory: Path) -> list[str]:
    """File names of all leases by number; a released one comes after the held one of the same number."""
    return sorted(filter(_NAME.fullmatch, os.listdir(directory)), key=lambda name: (_number(name), name))


def _number(name: str) -> int:
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[1])


def _machine() -> str:
    """Identify the machine, its boot, and its container, which has process ids of its own."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _start(pid: int) -> str | None:
    """When a local process started; "" if the system does not tell, None if the process is gone."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "" if _exists(pid) else None
    # A zombie is dead: only its parent has not noticed. The start is field 22 of the line, the state is field 3.
    return None if state == "Z" else rest[18]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True
