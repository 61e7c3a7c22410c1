from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from revd.networks import two_layer_network
from revd.rewards import RE3, Disagreement, MixedReward
from revd.rewards.saved_state import check_saved_parameters
from revd.rewards.trained import Minibatch, Transitions
from revd.testing.subject import equal, outputs
from tests.support.networks import dense
from tests.support.rollouts import BOX, DISCRETE, Shape, changed, make_rollout, make_rollouts, shapes

SIZE = 4
FEATURES = ("random", "inverse", "dynamics")


def make(n_envs: int = 2, **parameters: Any) -> Disagreement:
    return Disagreement(BOX, DISCRETE, n_envs, **{"embedding_size": SIZE} | parameters)


def answers(reward: Disagreement, state: torch.Tensor, action: int) -> NDArray[np.float64]:
    """What each model predicts for one transition, (n_models, d), in float64."""
    phi = dense(reward.encoder.network, state.double().numpy())  # type: ignore[arg-type]
    inputs = np.concatenate([phi, np.eye(4)[action]])
    models = (parameter.detach().double().numpy() for parameter in reward.models.parameters())
    return np.array([c @ np.maximum(a @ inputs + b, 0) + d for a, b, c, d in zip(*models, strict=True)])


@pytest.mark.parametrize("features", FEATURES)
@settings(derandomize=True, max_examples=15, deadline=None)
@given(data=st.data(), ragged=st.booleans(), n_models=st.integers(2, 5), seed=st.integers(0, 10_000))
def test_equals_naive_loops(features: str, data: st.DataObject, ragged: bool, n_models: int, seed: int) -> None:
    shape = data.draw(shapes(min_steps=1, ragged=ragged))
    reward = make(shape.n_envs, n_models=n_models, features=features)
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


@pytest.mark.parametrize("features", FEATURES)
def test_the_losses_are_those_of_the_equations(features: str) -> None:
    reward = make(model_share=1.0, update_fraction=1.0, batch_size=100, features=features)
    rollout = changed(make_rollout(0), lengths=[5, 8])
    model_errors, inverse_errors = [], []
    for t, env in rollout.valid.nonzero().tolist():
        action = int(rollout.actions[t, env])
        predicted = answers(reward, rollout.observations[t, env], action)  # type: ignore[index]
        states = (rollout.observations, rollout.next_observations)
        phi, target = (dense(reward.encoder.network, part[t, env].double().numpy()) for part in states)  # type: ignore[index,union-attr,arg-type]
        model_errors += [((model - target) ** 2).mean() for model in predicted]
        if features != "random":
            guess = dense(reward.inverse_model, np.concatenate([phi, target]))  # type: ignore[arg-type]
            inverse_errors.append(np.log(np.exp(guess).sum()) - guess[action])
    expected = {"model_loss": np.mean(model_errors)}
    if features != "random":
        expected["inverse_loss"] = np.mean(inverse_errors)
    assert reward.update(rollout) == pytest.approx(expected, rel=1e-4)


def test_the_defaults_train_models_one_by_one_on_frozen_features() -> None:
    """Each forward model for itself, with torch's Adam: the same random draws, in the same order, and nothing else."""
    reward = make(batch_size=5, update_fraction=0.7, seed=3)
    generator = torch.Generator().manual_seed(3)
    size = SIZE + 4
    models = [two_layer_network(size, SIZE, generator, hidden=64) for _ in range(5)]
    adam = torch.optim.Adam([parameter for model in models for parameter in model.parameters()], lr=3e-4)
    for updates, rollout in enumerate(make_rollouts(0, 4)):
        actions = torch.eye(4)[rollout.actions].flatten(0, 1)
        phi, target = (reward.encoder(part.flatten(0, 1)) for part in (rollout.observations, rollout.next_observations))  # type: ignore[union-attr]
        inputs = torch.cat([phi, actions], dim=1)
        with torch.no_grad():
            variance = torch.stack([model(inputs) for model in models]).var(dim=0, correction=0).mean(dim=1)
        torch.testing.assert_close(reward.compute(rollout).flatten(), variance, rtol=1e-4, atol=1e-7)
        drawn = torch.Generator().manual_seed(3 + updates)
        for rows in torch.randperm(len(inputs), generator=drawn)[: math.ceil(0.7 * len(inputs))].split(5):
            chosen = torch.rand(5, len(rows), generator=drawn) < 0.8
            errors = torch.stack([(model(inputs[rows]) - target[rows]).square().mean(dim=1) for model in models])
            adam.zero_grad()
            errors[chosen].mean().backward()
            adam.step()
        reward.update(rollout)
    for index, expected in enumerate(zip(*(model.parameters() for model in models), strict=True)):
        found = list(reward.models.parameters())[index]
        torch.testing.assert_close(found, torch.stack(list(expected)), rtol=1e-4, atol=1e-6)
    assert {name.split(".")[0] for name, _ in reward.named_parameters()} == {"encoder", "models"}
    assert reward.adam.size == 4


def test_each_transition_trains_a_share_of_the_models() -> None:
    """With one transition a minibatch, a model moves only if that transition was drawn for it."""
    reward = make(1, n_models=400, learning_rate=1e-3, model_share=0.8)
    before = reward.models.weight.detach().clone()
    reward.update(make_rollout(0, Shape(n_steps=1, n_envs=1)))
    moved = (reward.models.weight != before).flatten(1).any(dim=1)
    assert 0.74 < moved.float().mean() < 0.86


def test_models_start_different() -> None:
    assert len({float(weight) for weight in make().models.weight[:, 0, 0].detach()}) == 5


@pytest.mark.parametrize(
    ("features", "by_models", "by_inverse"),
    [
        ("random", {"models"}, set()),
        ("inverse", {"models"}, {"encoder", "inverse_model"}),
        ("dynamics", {"encoder", "models"}, {"encoder", "inverse_model"}),
    ],
)
def test_what_each_loss_trains(features: str, by_models: set[str], by_inverse: set[str]) -> None:
    for name, expected in (("model_loss", by_models), ("inverse_loss", by_inverse)):
        if expected:
            reward = make(features=features)
            reward.objective = lambda losses, name=name: losses[name]  # type: ignore[method-assign,misc]
            assert moved_by_an_update(reward) == expected
    assert moved_by_an_update(make(features=features)) == by_models | by_inverse


def test_the_models_errors_train_phi_as_their_input_and_as_their_target() -> None:
    """The gradient for the bias of phi is the slope of the loss when phi and phi' are shifted."""
    reward = make(features="dynamics")
    transitions = Transitions(make_rollout(0), reward.actions, reward.device)
    bias = list(reward.encoder.parameters())[-1]

    def loss() -> torch.Tensor:
        return reward.losses(Minibatch(transitions, torch.arange(16), torch.Generator().manual_seed(0)))["model_loss"]

    (gradient,) = torch.autograd.grad(loss(), bias)
    for j in range(SIZE):
        values = []
        for shift in (0.01, -0.01):
            with torch.no_grad():
                bias[j] += shift
                values.append(float(loss()))
                bias[j] -= shift
        assert float(gradient[j]) == pytest.approx((values[0] - values[1]) / 0.02, rel=0.05, abs=1e-3)


def moved_by_an_update(reward: Disagreement) -> set[str]:
    """The networks that training changes."""
    before = {name: value.detach().clone() for name, value in reward.named_parameters()}
    reward.update(make_rollout(0))
    return {name.split(".")[0] for name, value in reward.named_parameters() if not torch.equal(value, before[name])}


@pytest.mark.parametrize("features", FEATURES)
def test_saved_in_the_middle_it_continues_exactly(features: str) -> None:
    rollouts = make_rollouts(2, 6)
    reward, copied = (make(features=features, batch_size=5) for _ in range(2))
    outputs(reward, rollouts[:3])
    copied.load_state_dict(copy.deepcopy(reward.state_dict()))
    assert equal(outputs(reward, rollouts[3:]), outputs(copied, rollouts[3:]))


def test_what_was_saved_before_there_were_features_had_random_ones() -> None:
    old = {name: value for name, value in vars(make().config).items() if name != "features"}
    check_saved_parameters("Disagreement", make().config, old)
    with pytest.raises(ValueError, match="features was 'random', here it is 'inverse'"):
        check_saved_parameters("Disagreement", make(features="inverse").config, old)


def test_so_had_members_of_a_mixture() -> None:
    for features, fits in (("random", True), ("inverse", False)):
        mixed = MixedReward([make(), make(features=features), RE3(BOX, DISCRETE, 2)])
        members = {name: dict(values) for name, values in mixed.config.members.items()}
        for name in ("disagreement", "disagreement_2"):
            del members[name]["features"]
        saved = {**vars(mixed.config), "members": members}
        if fits:
            check_saved_parameters("MixedReward", mixed.config, saved)
        else:
            with pytest.raises(ValueError, match=r"disagreement_2\.features was 'random', here it is 'inverse'"):
                check_saved_parameters("MixedReward", mixed.config, saved)


def test_one_pickled_before_there_were_features_still_trains() -> None:
    old, new = make(), make()
    for name in ("forward_model", "inverse_model"):
        del old.__dict__[name]
    del old.config.__dict__["features"]
    rollouts = make_rollouts(0, 2)
    assert equal(outputs(old, rollouts), outputs(new, rollouts))


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


def test_unknown_features() -> None:
    with pytest.raises(ValueError, match=r"^features must be 'random' or 'inverse' or 'dynamics', got 'pixels'"):
        make(features="pixels")
