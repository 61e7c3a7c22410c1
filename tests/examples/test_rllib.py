"""The example with RLlib runs."""

import re

import pytest

pytest.importorskip("ray.rllib", reason="Ray is not installed: pip install 'revd[ray]'")

from tests.examples.scripts import load


def test_it_prints_the_return_and_the_bonus_share(capfd, monkeypatch):
    # Ray's workers would yield to everything else that runs on the machine.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    load("rllib_ppo").main(steps=2_560)
    ((steps, mean, share),) = re.findall(r"([\d,]+) steps: return (\S+), share (\S+)", capfd.readouterr().out)
    assert (steps, mean) == ("2,560", "-200.0")
    assert 0 < float(share) < 1
