"""What the objectives do at their edges; test_equivalence.py compares them with SB3's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from stable_baselines3.common.utils import explained_variance as theirs

from revd.fast.losses import ActionEvaluation, PPOObjective, explained_variance

COEFFICIENTS = torch.tensor([0.8, 1.2, 0.2, 0.1, 0.5, 0.25])


def samples(n: int) -> RolloutBufferSamples:
    numbers = torch.arange(4.0 * n).reshape(4, n)
    return RolloutBufferSamples(torch.zeros(n), torch.zeros(n), numbers[0], numbers[1], numbers[2], numbers[3])


def test_without_a_formula_the_entropy_is_estimated_from_the_actions() -> None:
    log_prob = torch.tensor([-1.0, -3.0])
    assert ActionEvaluation(log_prob, log_prob, None).entropy_loss() == -2
    assert ActionEvaluation(log_prob, log_prob, torch.tensor([1.0, 2.0])).entropy_loss() == -1.5


def test_a_minibatch_of_one_is_not_normalized() -> None:
    then = samples(1)
    now = ActionEvaluation(then.old_values, then.old_log_prob, torch.zeros(1))
    loss, statistics = PPOObjective(True, clip_values=False)(now, then, COEFFICIENTS)
    reported = dict(zip(PPOObjective.statistics, statistics.tolist(), strict=True))
    # advantage 2, value 0, return 3
    assert reported == {
        "entropy_loss": 0,
        "policy_gradient_loss": -2,
        "value_loss": 9,
        "approx_kl": 0,
        "clip_fraction": 0,
        "loss": pytest.approx(-2 + 0.25 * 9),
    }
    assert loss == statistics[-1]


def test_explained_variance_is_sb3s() -> None:
    values, returns = np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32)
    found = float(explained_variance(torch.as_tensor(values), torch.as_tensor(returns)))
    assert found == pytest.approx(theirs(values.flatten(), returns.flatten()), rel=1e-5)
    assert explained_variance(torch.zeros(3), torch.ones(3)).isnan()
