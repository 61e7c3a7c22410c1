"""Searches whose runs are fake."""

import math
import os
from dataclasses import replace
from unittest import mock

from revd.runs.config import TrainConfig
from revd.tuning.config import TuneConfig
from revd.tuning.driver import tune
from revd.tuning.parameters import make_space
from tests.support.fake_runs import FakeLauncher

TRAINING = TrainConfig(task="CartPole-v1", steps=1000, n_envs=2, weight=0.1)
SPACE = make_space(TRAINING, ["weight", "k=1:15"])


def earns(config, part):
    """Best at a weight of 1, and better with more training."""
    return part - 5 * abs(math.log10(config.weight)) + config.seed


def search(path, space=SPACE, **settings):
    return TuneConfig(training=replace(TRAINING, output=path), space=space, **{"trials": 8, **settings})


def run(config, *, launcher=None, parts=1, looks=math.inf):
    """Search with fake runs that advance by `parts` between two looks, and interrupt it after `looks`."""
    launcher = launcher or FakeLauncher(earns)
    seen = []

    def watch(records):
        seen.append(records)
        if len(seen) > looks:
            raise KeyboardInterrupt
        launcher.advance(parts)

    # A test needs no fsync, which would take most of the time.
    with mock.patch.object(os, "fsync"):
        try:
            return tune(config, watch=watch, launcher=launcher, interval=0)
        except KeyboardInterrupt:
            return None
