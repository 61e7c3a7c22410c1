import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

from revd.envs.make import make_env
from revd.envs.silence import silenced
from tests.support.bullet import needs_pybullet

PROGRAM = """
from revd.envs.make import make_env
envs = [make_env(task) for task in ("bullet/hopper", "bullet/cart-pole") for _ in range(2)]
for env in envs:
    env.reset(seed=0)
    env.step(env.action_space.sample())
    env.reset()
    env.close()
"""


@needs_pybullet
def test_pybullet_prints_nothing():
    # Into pipes, where C's buffers would only empty at exit.
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")


def test_only_output_inside_is_discarded(capfd):
    print("before")
    with silenced():
        ctypes.CDLL(None).puts(b"inside, in a buffer of C's")
        os.write(1, b"inside")
        os.write(2, b"inside")
    print("after", file=sys.stderr)
    print("after")
    captured = capfd.readouterr()
    assert captured.out == "before\nafter\n"
    assert captured.err == "after\n"


def test_errors_are_raised_and_the_streams_restored(capfd):
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    with pytest.raises(RuntimeError, match="broken"), silenced():
        raise RuntimeError("broken")
    print("after")
    assert capfd.readouterr().out == "after\n"
    if descriptors is not None:
        assert len(os.listdir("/proc/self/fd")) == descriptors, "no descriptor is left open"


@needs_pybullet
def test_only_the_first_reset_is_silenced(monkeypatch):
    entered = []
    monkeypatch.setattr("revd.envs.silence.silenced", lambda: entered.append(1) or silenced())
    with make_env("bullet/hopper") as env:
        first, _ = env.reset(seed=1)
        env.step(np.zeros(3, np.float32))
        env.reset(seed=2)
        assert len(entered) == 1
        assert env.observation_space.contains(first)
