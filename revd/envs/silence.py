"""Suppressing the output of native libraries."""

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
    """Discard output to stdout and stderr, including that of C code. Exceptions are raised as usual.

    PyBullet's C code prints its build date when it is imported, and `argv[0]=` with every connection. This affects the
    whole process with all threads, so use it around single calls only.
    """
    _flush()
    saved = [(stream, os.dup(stream)) for stream in (1, 2)]
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream, _ in saved:
            os.dup2(null, stream)
        yield
    finally:
        # Flush C's buffers before the streams are restored. Otherwise they are written to a pipe at exit.
        _flush()
        for stream, copy in saved:
            os.dup2(copy, stream)
            os.close(copy)
        os.close(null)


class SilentFirstReset(gymnasium.Wrapper[ObsType, ActType, ObsType, ActType]):
    """Discards the output of the first reset, in which PyBullet's tasks connect to the physics engine."""

    def __init__(self, env: gymnasium.Env[ObsType, ActType]) -> None:
        super().__init__(env)
        self._started = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Reset; the first time without output."""
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
