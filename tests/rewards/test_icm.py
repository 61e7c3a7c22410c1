from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from revd.rewards import ICM
from tests.support.networks import dense
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, make_rollout, make_rollouts, shapes


def make(n_envs: int = 2, **parameters: Any) -> ICM:
    return ICM(BOX, DISCRETE, n_envs, **{"embedding_size": 4} | parameters)


@settings(derandomize=True, max_examples=15, deadline=None)
@given(data=st.data(), ragged=st.booleans(), eta=st.sampled_from([0.01, 2.0]), seed=st.integers(0, 10_000))
def test_equals_naive_loops(data: st.DataObject, ragged: bool, eta: float, seed: int) -> None:
    shape = data.draw(shapes(min_steps=1, ragged=ragged))
    reward = make(shape.n_envs, eta=eta)
    for rollout in make_rollouts(seed, 2, shape):
        expected = np.zeros((rollout.n_steps, rollout.n_envs))
        for t, env in rollout.valid.nonzero().tolist():
            states = (rollout.observations, rollout.next_observations)
            phi, phi_next = (dense(reward.encoder.network, part[t, env].double().numpy()) for part in states)  # type: ignore[index,union-attr]
            action = np.eye(4)[int(rollout.actions[t, env])]
            predicted = dense(reward.forward_model, np.concatenate([phi, action]))  # type: ignore[arg-type]
            expected[t, env] = eta / 2 * sum((p - q) ** 2 for p, q in zip(predicted, phi_next, strict=True))
        found = reward.compute(rollout).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6 * max(expected.max(), 1))
        if rollout.n_valid:
            assert reward.metrics()["error"] == pytest.approx(expected.sum() / rollout.n_valid / eta, rel=1e-3)
        reward.update(rollout)


def test_the_losses_are_those_of_the_equation() -> None:
    reward = make(batch_size=100, update_fraction=1.0)
    rollout = changed(make_rollout(0), lengths=[5, 8])
    forward, inverse = [], []
    for t, env in rollout.valid.nonzero().tolist():
        states = (rollout.observations, rollout.next_observations)
        phi, phi_next = (dense(reward.encoder.network, part[t, env].double().numpy()) for part in states)  # type: ignore[index,union-attr]
        action = int(rollout.actions[t, env])
        predicted = dense(reward.forward_model, np.concatenate([phi, np.eye(4)[action]]))  # type: ignore[arg-type]
        guess = dense(reward.inverse_model, np.concatenate([phi, phi_next]))  # type: ignore[arg-type]
        forward.append(((predicted - phi_next) ** 2).sum() / 2)
        inverse.append(np.log(np.exp(guess).sum()) - guess[action])
    expected = {"forward_loss": np.mean(forward), "inverse_loss": np.mean(inverse)}
    assert reward.update(rollout) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("beta", [0.2, 0.5])
def test_the_objective_weighs_both_losses(beta: float) -> None:
    losses = {"forward_loss": torch.tensor(3.0), "inverse_loss": torch.tensor(7.0)}
    assert float(make(forward_weight=beta).objective(losses)) == pytest.approx((1 - beta) * 7 + beta * 3)


def test_both_losses_train_phi_and_each_trains_its_model() -> None:
    for beta, still, moving in ((0.0, "forward_model", "inverse_model"), (1.0, "inverse_model", "forward_model")):
        reward = make(forward_weight=beta)
        before = {name: value.detach().clone() for name, value in reward.named_parameters()}
        reward.update(make_rollout(0))
        moved = {
            name.split(".")[0] for name, value in reward.named_parameters() if not torch.equal(value, before[name])
        }
        assert moved == {"encoder", moving}
        assert still not in moved


def test_what_is_learnt_is_paid_less() -> None:
    reward = make(learning_rate=3e-3, update_fraction=1.0, batch_size=32)
    rollout = make_rollout(0, Shape(n_steps=16))
    means = []
    for _ in range(80):
        means.append(float(reward.compute(rollout).mean()))
        reward.update(rollout)
    assert means[-1] < 0.3 * means[0]


def test_the_action_is_part_of_the_prediction() -> None:
    rollout = make_rollout(0)
    actions = rollout.actions.clone()
    actions[2, 0] = (actions[2, 0] + 1) % 4
    before, after = (make().compute(changed(rollout, actions=taken)) for taken in (rollout.actions, actions))
    assert (before != after).nonzero().tolist() == [[2, 0]]


@pytest.mark.parametrize(("parameter", "value"), [("eta", 0.0), ("forward_weight", 1.1), ("forward_weight", -0.1)])
def test_parameters_out_of_range(parameter: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{parameter} must be .+, got {value}"):
        make(**{parameter: value})
