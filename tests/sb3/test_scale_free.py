"""With an automatic weight, no scale of bonus, rewards or embeddings changes what the policy learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from revd.sb3 import IntrinsicRewardCallback
from tests.support.environments import counting_envs
from tests.support.sb3 import ALL_ALGORITHMS, Onlooker, ScriptedReward, flat_parameters, make_model

N_STEPS, N_ENVS, ROLLOUTS = 8, 2, 3
LENGTHS = ((4,), (3, 6, 2))


class ScaledReward(ScriptedReward):
    """Pays random numbers around 3, times a factor."""

    factor = 1.0

    def bonus(self, rollout: Any) -> torch.Tensor:
        return self.factor * (3 + super().bonus(rollout))


class ScaledEmbeddings(Onlooker):
    """Multiplies what the bonus's critic reads; the critic predicts values as large as the bonus from the start."""

    factor = 1.0

    def _on_training_start(self) -> None:
        super()._on_training_start()
        automatic = self.callback.weighting.automatic
        automatic.critic.layers[-1].weight.data.fill_(0.3)
        automatic.embedder.own.register_forward_hook(lambda encoder, inputs, embeddings: self.factor * embeddings)


def model_without_values(algo: str, rewards: float) -> Any:
    """A policy that learns beside a value function that stays 0.

    What a value function has learnt does not follow the scale of the rewards at once, with or without a bonus.
    """
    frozen: dict[str, Any] = {"vf_coef": 0.0}
    if algo == "TRPO":
        # The rate of its value function alone: the policy's steps are as long as the divergence allows.
        frozen = {"learning_rate": 0.0}
    if "A2C" in algo:
        # Its updates otherwise follow the scale of the advantages, by design.
        frozen["normalize_advantage"] = True
    env = counting_envs(
        N_ENVS, lengths=LENGTHS, truncate=True, reward=lambda number: rewards * (2.5 if number % 5 == 0 else -0.5)
    )
    model = make_model(algo, env, n_steps=N_STEPS, **frozen)
    model.policy.value_net.weight.data.zero_()
    return model


def learnt(
    algo: str, *, bonus: float = 1.0, rewards: float = 1.0, embeddings: float = 1.0, **weighting: Any
) -> tuple[torch.Tensor, np.ndarray | None]:
    """How far the policy's parameters came, and the critic's values in the last rollout if there is one."""
    model = model_without_values(algo, rewards)
    reward = ScaledReward(model.observation_space, model.action_space, N_ENVS)
    reward.factor = bonus
    callback = IntrinsicRewardCallback(reward, **weighting)
    onlooker = None
    if "weight" not in weighting:
        onlooker = ScaledEmbeddings(callback)
        onlooker.factor = embeddings
    start = flat_parameters(model)
    model.learn(ROLLOUTS * N_STEPS * N_ENVS, callback=[callback] if onlooker is None else [onlooker, callback])
    return flat_parameters(model) - start, None if onlooker is None else onlooker.values[-1]


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


@pytest.mark.parametrize("algo", ALL_ALGORITHMS)
def test_no_scale_changes_how_the_policy_is_updated(algo: str) -> None:
    """All parameters, after several updates that normalise advantages.

    Such an update sees the advantages' proportions only, and w keeps those between the task's and the bonus's. So
    neither the clipping of gradients nor the optimiser meets another number, rounding aside. The bonus's critic sees
    standardised bonuses and embeddings, and predicts the same values.
    """
    plain, values = learnt(algo, strength=0.5)
    assert values is not None
    assert values.std() > 0.3, "what the critic predicts matters"
    for scale in ({"bonus": 1000.0}, {"rewards": 1000.0}, {"embeddings": 10.0}):
        scaled, judged = learnt(algo, strength=0.5, **scale)
        assert distance(scaled, plain) < 2e-3, scale
        np.testing.assert_allclose(judged, values, atol=1e-3 * np.abs(values).max(), err_msg=str(scale))
    assert distance(learnt(algo, strength=0.0)[0], plain) > 0.05, "the bonus has a part in it"


@pytest.mark.parametrize("algo", ALL_ALGORITHMS)
def test_a_fixed_weight_follows_either_scale(algo: str) -> None:
    plain, _ = learnt(algo, weight=0.5)
    for scale in ({"bonus": 1000.0}, {"rewards": 1000.0}):
        assert distance(learnt(algo, weight=0.5, **scale)[0], plain) > 0.05, scale
