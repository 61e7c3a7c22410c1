"""Advantages and returns in one kernel, against the definition: in Triton's interpreter where there is no GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is not made for this system")

from revd.sb3.fast import returns
from tests.support.sb3 import generalized_advantages as naive

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("at_once", [4, 1024])
@pytest.mark.parametrize("n_steps", [1, 2, 5, 8, 37])
@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0)])
@pytest.mark.parametrize("ends", [0.0, 0.3, 1.0])
def test_they_are_those_of_the_definition(
    at_once: int, n_steps: int, gamma: float, gae_lambda: float, ends: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(returns, "STEPS", at_once)
    random = np.random.default_rng(n_steps)
    rewards, values = random.normal(size=(2, n_steps, 3))
    last, dones = random.normal(size=3), random.random((n_steps, 3)) < ends
    parts = {"rewards": rewards, "values": values, "last_values": last, "dones": dones}
    found, returned = torch.full((2, n_steps, 3), torch.nan, device=DEVICE)
    returns.fill(
        found,
        returned,
        **{name: torch.tensor(part, dtype=torch.float32, device=DEVICE) for name, part in parts.items()},
        gamma=gamma,
        gae_lambda=gae_lambda,
    )
    expected = naive(rewards, values, last, dones, gamma, gae_lambda)
    np.testing.assert_allclose(found.cpu(), expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(returned.cpu(), expected + values, rtol=2e-5, atol=2e-6)
