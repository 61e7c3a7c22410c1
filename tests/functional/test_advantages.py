"""GAE in logarithmic depth against the double sum of its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from revd.functional.advantages import generalized_advantages
from tests.support.sb3 import generalized_advantages as naive


@pytest.mark.parametrize("n_steps", [1, 2, 3, 8, 37])
@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0)])
@pytest.mark.parametrize("ends", [0.0, 0.3, 1.0])
def test_advantages_are_those_of_the_definition(n_steps: int, gamma: float, gae_lambda: float, ends: float) -> None:
    random = np.random.default_rng(n_steps)
    rewards, values = random.normal(size=(2, n_steps, 4))
    last, dones = random.normal(size=4), random.random((n_steps, 4)) < ends
    found = generalized_advantages(
        *(torch.as_tensor(part) for part in (rewards, values, last, dones.astype(np.float64))),
        gamma=gamma,
        gae_lambda=gae_lambda,
    )
    np.testing.assert_allclose(found, naive(rewards, values, last, dones, gamma, gae_lambda), rtol=1e-10, atol=1e-12)


def test_long_rollouts_stay_precise_in_float32() -> None:
    generator = torch.Generator().manual_seed(0)
    rewards, values = torch.randn(2, 2048, 3, generator=generator)
    dones = (torch.rand(2048, 3, generator=generator) < 0.01).float()
    arguments = rewards, values, torch.zeros(3), dones
    precise = generalized_advantages(*(part.double() for part in arguments), gamma=0.99, gae_lambda=0.95)
    found = generalized_advantages(*arguments, gamma=0.99, gae_lambda=0.95)
    torch.testing.assert_close(found.double(), precise, rtol=0, atol=1e-6 * float(precise.abs().max()))
