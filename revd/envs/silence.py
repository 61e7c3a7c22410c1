"""Keeps the chatter of native libraries off the terminal."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
from gymnasium.core import ActType, ObsType


@contextmanager
def silenced() -> Iterator[None]:
    """
    Discard what is written to stdout and stderr, by C code too. Exceptions pass.

    PyBullet prints its build date when it is imported and an empty `argv[0]=` with every connection, below
    Python's own streams. For the whole process and every thread, so keep it around single calls.
    """
    _flush()
    saved = [(stream, os.dup(stream)) for stream in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream, _ in saved:
            os.dup2(nowhere, stream)
        yield
    finally:
        # C's buffers must empty before the streams are back: into a pipe, they would otherwise be written at exit.
        _flush()
        for stream, copy in saved:
            os.dup2(copy, stream)
            os.close(copy)
        os.close(nowhere)


class QuietStart(gymnasium.Wrapper[ObsType, ActType, ObsType, ActType]):
    """Silences an environment's first reset, the one in which PyBullet's tasks connect to the physics engine."""

    def __init__(self, env: gymnasium.Env[ObsType, ActType]) -> None:
        super().__init__(env)
        self._started = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset, the first time in silence."""
        if self._started:
            return self.env.reset(seed=seed, options=options)
        with silenced():
            result = self.env.reset(seed=seed, options=options)
        self._started = True
        return result


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    ctypes.CDLL(None).fflush(None)
