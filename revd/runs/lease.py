"""Who may write into a run: a lease with a heartbeat, which works on disks that several machines share.

The lease of a run is the newest of the files `.lease-NUMBER` in its directory. Its content says who wrote it (machine,
process, a random token), its modification time is the heartbeat: the holder's thread sets it anew every `BEAT` seconds.
A holder that lets go renames it to `.lease-NUMBER-free`. Whoever wants the run looks at the newest file and takes the
next number once the holder has let go, has died (a process of this machine, known at once), or has been silent for
`PATIENCE` seconds on the clock of the one who waits: clocks of different machines are never compared.

A number is taken by creating its file, which exactly one of several takers can do, and counts only if no greater number
is there afterwards. Numbers never go back, so a taker that was asleep cannot push out anyone who came meanwhile. A
holder that was silent for too long, and has lost its lease, learns so at its next `check` and must stop.
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

BEAT = 10.0
PATIENCE = 60.0
#: Seconds between two looks at a holder that may be dead.
GLANCE = 0.2
_FREE = "-free"
_NAME = re.compile(rf"\.lease-(\d+)(?:{_FREE})?")


class LeaseLostError(RuntimeError):
    """Another process has taken the run over; this one must not write to it any more."""


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Who holds a lease.

    Attributes:
        host: The machine's name, for people.
        machine: What tells machines, their boots and their containers apart: process ids mean nothing beyond it.
        pid: The process.
        started: When it started, for a process id may come back.
        token: Random, so that no two leases are alike.
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
        """Whether this machine can tell if it lives."""
        return self.machine == _machine()

    @property
    def is_alive(self) -> bool:
        """Whether the process is still there; only for a local one."""
        return _start(self.pid) in (self.started, "")

    @classmethod
    def from_json(cls, text: str) -> Owner:
        """What a lease holds; a ValueError if it is something else."""
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
class _Seen:
    """The newest lease as it was found."""

    path: Path
    content: str
    beat: int

    @property
    def number(self) -> int:
        """Its place in the order of leases."""
        return _number(self.path.name)

    @property
    def owner(self) -> Owner | None:
        """Who wrote it; None if it is damaged, and whether its holder lives shows in its heartbeat alone."""
        try:
            return Owner.from_json(self.content)
        except ValueError:
            return None

    @property
    def is_free(self) -> bool:
        owner = self.owner
        return self.path.name.endswith(_FREE) or (owner is not None and owner.is_local and not owner.is_alive)

    @property
    def is_known(self) -> bool:
        """Whether one look is enough to tell if it is free."""
        owner = self.owner
        return self.is_free or (owner is not None and owner.is_local)


class Lease:
    """A held lease. `lease` makes one."""

    def __init__(self, path: Path, content: str) -> None:
        self._path = path
        self._content = content

    def check(self) -> None:
        """Raise a LeaseLostError if another process holds the run by now: ask before every write that matters."""
        newest = _newest(self._path.parent)
        if newest is None or (newest.path, newest.content) != (self._path, self._content):
            taker = "nobody" if newest is None else newest.owner or "another process"
            raise LeaseLostError(
                f"the run in {str(self._path.parent)!r} is now held by {taker}: this process was silent for too long "
                "and must not write there any more"
            )

    def beat(self) -> None:
        """Show that the holder lives. Needs no room on the disk."""
        # Gone: the lease is lost, which `check` will say where it matters. Any other trouble may pass until the next.
        with suppress(OSError):
            os.utime(self._path)

    def release(self) -> None:
        """Let go, unless it is lost already. Needs no room on the disk either."""
        with suppress(LeaseLostError, OSError):
            self.check()
            self._path.rename(self._path.with_name(self._path.name + _FREE))


@contextmanager
def lease(directory: Path, *, patience: float | None = PATIENCE) -> Iterator[Lease]:
    """
    Keep a run's directory to this process, with a heartbeat in the background.

    A FileExistsError says who has it. Whether a process of another machine lives takes up to `patience` seconds to see;
    with None, nobody is waited for and it counts as alive.
    """
    held = _acquire(directory, patience)
    ended = threading.Event()
    heart = threading.Thread(target=_keep_beating, args=(held, ended), name="lease", daemon=True)
    heart.start()
    try:
        yield held
    finally:
        ended.set()
        heart.join()
        held.release()


def _keep_beating(held: Lease, ended: threading.Event) -> None:
    while not ended.wait(BEAT):
        held.beat()


def _acquire(directory: Path, patience: float | None) -> Lease:
    newest = _newest(directory)
    if newest is not None and not newest.is_known:
        _await_silence(directory, newest, patience)
    elif newest is not None and not newest.is_free:
        raise _held(directory, newest)
    path = directory / f".lease-{1 if newest is None else newest.number + 1}"
    content = json.dumps(asdict(Owner.me()))
    try:
        _create(path, content)
    except FileExistsError as error:
        raise _held(directory, _newest(directory)) from error
    winner = _newest(directory)
    if winner is None or winner.path != path:
        path.unlink(missing_ok=True)
        raise _held(directory, winner)
    for older in _names(directory)[:-1]:
        (directory / older).unlink(missing_ok=True)
    return Lease(path, content)


def _create(path: Path, content: str) -> None:
    with path.open("x") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            # On a full disk: an empty lease would have to be waited for.
            path.unlink()
            raise


def _await_silence(directory: Path, seen: _Seen, patience: float | None) -> None:
    """Return once the holder has shown no sign of life for `patience` seconds; a FileExistsError at the first sign."""
    if patience is None:
        raise _held(directory, seen)
    warnings.warn(
        f"{seen.owner or 'another process'} has not let go of {str(directory)!r}; "
        f"if it shows no sign of life for {patience:.0f} seconds, the run is taken over",
        stacklevel=4,
    )
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        time.sleep(GLANCE)
        now = _newest(directory)
        if now != seen:
            raise _held(directory, now)


def _held(directory: Path, seen: _Seen | None) -> FileExistsError:
    owner = None if seen is None else seen.owner
    return FileExistsError(
        f"another process is training in {str(directory)!r}: {owner or 'it has just begun'}; choose another --output, "
        "or wait for its end"
    )


def _newest(directory: Path) -> _Seen | None:
    """The lease with the greatest number, opened and read now, so that a network disk asks its server."""
    while names := _names(directory):
        path = directory / names[-1]
        # Gone: its holder has just renamed it, or another has replaced it. The next look sees which.
        with suppress(FileNotFoundError), path.open(errors="replace") as file:
            return _Seen(path, file.read(), os.fstat(file.fileno()).st_mtime_ns)
    return None


def _names(directory: Path) -> list[str]:
    """Of all leases, by number; the one that is let go of after the one of the same number that is not."""
    return sorted(filter(_NAME.fullmatch, os.listdir(directory)), key=lambda name: (_number(name), name))


def _number(name: str) -> int:
    match = _NAME.fullmatch(name)
    assert match is not None
    return int(match[1])


def _machine() -> str:
    """Differs between machines, boots of one machine, and containers that number their processes for themselves."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _start(pid: int) -> str | None:
    """When a process of this machine started, "" where the system does not say; None if it is gone."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "" if _answers(pid) else None
    # A zombie is dead: its parent has only not asked yet. The start is field 22 of the line; the state is field 3.
    return None if state == "Z" else rest[18]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True
