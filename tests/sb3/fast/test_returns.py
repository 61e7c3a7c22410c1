"""Advantages and returns in one kernel, against the definition: in Triton's interpreter where there is no GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is not made for this system")

from revd.sb3.fast import returns
from tests.support.sb3 import generalized_advantages as naive

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(
    ("n_steps", "at_once"),
    [*((n_steps, at_once) for n_steps in (1, 2, 5, 8, 37) for at_once in (4, 1024)), (200, 1024), (1100, 1024)],
)
@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0)])
@pytest.mark.parametrize("ends", [0.0, 0.3, 1.0])
def test_they_are_those_of_the_definition(
    n_steps: int, at_once: int, gamma: float, gae_lambda: float, ends: float, monkeypatch: pytest.MonkeyPatch
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
    rounding = {"rtol": 2e-5, "atol": 2e-6 * max(1, np.abs(expected).max())}  # of sums that may come near zero
    np.testing.assert_allclose(found.cpu(), expected, **rounding)
    np.testing.assert_allclose(returned.cpu(), expected + values, **rounding)


def test_any_layout_will_do() -> None:
    random = torch.Generator().manual_seed(0)
    rewards, values, dones = torch.rand((3, 6, 4), generator=random).to(DEVICE)
    dones = dones.round()
    known = {"rewards": rewards, "values": values, "last_values": values[0], "dones": dones}
    strided = {name: torch.stack([part, part], dim=-1)[..., 0] for name, part in known.items()}
    strided["rewards"] = rewards.T.contiguous().T
    assert not any(part.is_contiguous() for part in strided.values())
    found = []
    for parts in (known, strided):
        found.append(torch.full((2, 6, 4), torch.nan, device=DEVICE))
        returns.fill(*found[-1], **parts, gamma=0.99, gae_lambda=0.95)
    assert torch.equal(*found)
