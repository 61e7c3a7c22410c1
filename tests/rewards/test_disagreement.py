from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from revd.rewards import Disagreement
from tests.support.networks import dense
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, make_rollout, make_rollouts, shapes

SIZE = 4


def make(n_envs: int = 2, **parameters: Any) -> Disagreement:
    return Disagreement(BOX, DISCRETE, n_envs, **{"embedding_size": SIZE} | parameters)


def answers(reward: Disagreement, state: torch.Tensor, action: int) -> NDArray[np.float64]:
    """What each model predicts for one transition, (n_models, d), in float64."""
    phi = dense(reward.encoder.network, state.double().numpy())  # type: ignore[arg-type]
    inputs = np.concatenate([phi, np.eye(4)[action]])
    models = (parameter.detach().double().numpy() for parameter in reward.models.parameters())
    return np.array([c @ np.maximum(a @ inputs + b, 0) + d for a, b, c, d in zip(*models, strict=True)])


@settings(derandomize=True, max_examples=15, deadline=None)
@given(data=st.data(), ragged=st.booleans(), n_models=st.integers(2, 5), seed=st.integers(0, 10_000))
def test_equals_naive_loops(data: st.DataObject, ragged: bool, n_models: int, seed: int) -> None:
    shape = data.draw(shapes(min_steps=1, ragged=ragged))
    reward = make(shape.n_envs, n_models=n_models)
    for rollout in make_rollouts(seed, 2, shape):
        expected = np.zeros((rollout.n_steps, rollout.n_envs))
        for t, env in rollout.valid.nonzero().tolist():
            predicted = answers(reward, rollout.observations[t, env], int(rollout.actions[t, env]))  # type: ignore[index]
            for j in range(SIZE):
                mean = sum(predicted[:, j]) / n_models
                expected[t, env] += sum((value - mean) ** 2 for value in predicted[:, j]) / n_models / SIZE
        found = reward.compute(rollout).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6 * max(expected.max(), 1))
        reward.update(rollout)


def test_the_loss_is_the_mean_error_of_all_models() -> None:
    reward = make(model_share=1.0, update_fraction=1.0, batch_size=100)
    rollout = changed(make_rollout(0), lengths=[5, 8])
    errors = []
    for t, env in rollout.valid.nonzero().tolist():
        predicted = answers(reward, rollout.observations[t, env], int(rollout.actions[t, env]))  # type: ignore[index]
        target = dense(reward.encoder.network, rollout.next_observations[t, env].double().numpy())  # type: ignore[index,arg-type]
        errors += [((model - target) ** 2).mean() for model in predicted]
    assert reward.update(rollout)["model_loss"] == pytest.approx(np.mean(errors), rel=1e-4)


def test_each_transition_trains_a_share_of_the_models() -> None:
    """With one transition a minibatch, a model moves only if that transition was drawn for it."""
    reward = make(1, n_models=400, learning_rate=1e-3, model_share=0.8)
    before = reward.models.weight.detach().clone()
    reward.update(make_rollout(0, Shape(n_steps=1, n_envs=1)))
    moved = (reward.models.weight != before).flatten(1).any(dim=1)
    assert 0.74 < moved.float().mean() < 0.86


def test_models_start_different_and_phi_stays_as_it_is() -> None:
    reward = make()
    assert len({float(weight) for weight in reward.models.weight[:, 0, 0].detach()}) == 5
    before = [parameter.clone() for parameter in reward.encoder.parameters()]
    reward.update(make_rollout(0))
    assert all(torch.equal(*pair) for pair in zip(before, reward.encoder.parameters(), strict=True))


def test_what_is_learnt_is_paid_less_and_what_is_new_is_not() -> None:
    reward = make(learning_rate=3e-3, update_fraction=1.0, batch_size=32)
    known, new = make_rollouts(0, 2, Shape(n_steps=16))
    new = changed(new, observations=new.observations + 10)
    before = [float(reward.compute(rollout).mean()) for rollout in (known, new)]
    for _ in range(100):
        reward.update(known)
    after = [float(reward.compute(rollout).mean()) for rollout in (known, new)]
    assert after[0] < 0.1 * before[0]
    assert after[1] > 10 * after[0]


@pytest.mark.parametrize(("parameter", "value"), [("n_models", 1), ("model_share", 0.0), ("model_share", 1.1)])
def test_parameters_out_of_range(parameter: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{parameter} must be .+, got {value}"):
        make(**{parameter: value})


def test_the_loss_counts_the_transitions_that_were_chosen() -> None:
    rollout = make_rollout(0, Shape(100, 4))
    losses = []
    for share in (1.0, 0.3):
        reward = make(4, model_share=share, update_fraction=1.0, batch_size=1_000)
        reward.compute(rollout)
        losses.append(reward.update(rollout)["model_loss"])
    assert losses[1] == pytest.approx(losses[0], rel=0.2)
