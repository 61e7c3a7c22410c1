"""The example with RLlib runs."""

import re

import pytest

pytest.importorskip("ray.rllib", reason="Ray is not installed: pip install 'revd[ray]'")

from tests.examples.scripts import load


def test_it_prints_the_return_and_the_bonus_share(capfd, monkeypatch):
    # Ray's workers would yield to everything else that runs on the machine.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    load("rllib_ppo").main(steps=4_000)
    lines = re.findall(r"([\d,]+) steps: return (\S+), share (\S+)", capfd.readouterr().out)
    assert [line[:2] for line in lines] == [("2,000", "-200.0"), ("4,000", "-200.0")]
    first, second = (float(share) for _, _, share in lines)
    assert first == 0, "REVD pays nothing for the first batch"
    assert 0 < second < 1
