"""The bonus's critic: what it is shown, how it learns, and that its state is whole."""

from copy import deepcopy

import pytest
import torch
from torch.nn import functional

from revd.weighting.critic import BATCH_SIZE, LEARNING_RATE, BonusCritic


def parameters(critic):
    return torch.cat([parameter.detach().flatten() for parameter in critic.layers.parameters()])


def embeddings(n=700, size=3, seed=0):
    return torch.randn(n, size, generator=torch.Generator().manual_seed(seed)) * 5 + 2


def test_it_predicts_nothing_before_it_has_learnt():
    critic = BonusCritic(3)
    states = embeddings().view(7, 100, 3)
    critic.observe(states.flatten(0, 1))
    assert torch.equal(critic(critic.scaled(states)), torch.zeros(7, 100))


def test_its_inputs_have_mean_zero_and_deviation_one():
    critic = BonusCritic(3)
    parts = embeddings().split(90)
    for part in parts:
        critic.observe(part)
    scaled = critic.scaled(embeddings())
    torch.testing.assert_close(scaled.mean(dim=0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.std(dim=0, correction=0), torch.ones(3), atol=1e-5, rtol=0)
    one, ten = BonusCritic(3), BonusCritic(3)
    one.observe(embeddings())
    ten.observe(10 * embeddings())
    torch.testing.assert_close(ten.scaled(10 * embeddings()), one.scaled(embeddings()))


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e6])
def test_a_number_that_has_never_varied_is_left_out(constant):
    critic = BonusCritic(3)
    states = embeddings()
    states[:, 1] = constant
    critic.observe(states)
    assert not critic.scaled(states)[:, 1].any()
    states[:, 1] += 5
    assert not critic.scaled(states)[:, 1].any()


def naive_values(critic, inputs):
    """V by torch's own functions, which autograd follows."""
    first, second, last = critic.layers
    for layer in (first, second):
        inputs = torch.tanh(functional.linear(inputs, layer.weight, layer.bias))
    return functional.linear(inputs, last.weight, last.bias).squeeze(-1)


def in_float64(critic):
    """Its layers and Adam's moments; the fused Adam counts steps in float32."""
    critic.layers.double()
    for name, buffer in list(critic.adam.named_buffers()):
        setattr(critic.adam, name, buffer if name.startswith("step") else buffer.double())
    return critic


@pytest.mark.parametrize("convert", [lambda critic: critic, in_float64], ids=["float32", "float64"])
@pytest.mark.parametrize("size", [3, 64])
def test_fitting_is_a_pass_of_adam_in_minibatches(size, convert):
    """By autograd and torch's own Adam, which keeps its moments from one fit to the next."""
    critic = convert(BonusCritic(size, seed=5))
    naive = deepcopy(critic)
    adam = torch.optim.Adam(naive.layers.parameters(), lr=LEARNING_RATE, fused=True)
    for fit in range(3):
        inputs = embeddings(700 + fit, size, seed=fit).to(critic.layers[0].weight.dtype) / 5
        targets = inputs.sin().sum(dim=1)
        torch.testing.assert_close(critic(inputs), naive_values(naive, inputs), rtol=0, atol=0)
        critic.fit(inputs, targets)
        generator = torch.Generator().manual_seed(5 + fit)
        order = torch.randperm(len(inputs), generator=generator)
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            adam.zero_grad()
            functional.mse_loss(naive_values(naive, inputs[rows]), targets[rows]).backward()
            adam.step()
        torch.testing.assert_close(parameters(critic), parameters(naive), rtol=0, atol=0)
    assert not torch.equal(parameters(critic), parameters(convert(BonusCritic(size, seed=5))))


def test_the_names_of_its_state_are_those_of_saved_files():
    tensors = [f"layers.{layer}.{part}" for layer in range(3) for part in ("weight", "bias")]
    adam = [f"adam.{name}_{index}" for index in range(6) for name in ("step", "exp_avg", "exp_avg_sq")]
    moments = [f"moments.{name}" for name in ("mean", "square_sum", "count")]
    assert set(BonusCritic(3).state_dict()) == {*tensors, *adam, *moments, "fits"}


def test_it_learns_where_the_bonus_is():
    critic = BonusCritic(3)
    states = embeddings(2048)
    critic.observe(states)
    inputs = critic.scaled(states)
    targets = 3 * torch.tanh(inputs[:, 0]) + inputs[:, 1] * (inputs[:, 2] > 0)
    for _ in range(160):
        critic.fit(inputs, targets)
    with torch.no_grad():
        assert functional.mse_loss(critic(inputs), targets) < 0.1 * targets.var()


def test_targets_of_zero_change_nothing():
    critic = BonusCritic(3)
    before = parameters(critic)
    critic.fit(embeddings(), torch.zeros(700))
    assert torch.equal(parameters(critic), before)


def test_it_learns_the_same_whether_or_not_autograd_is_on():
    critics = [BonusCritic(3), BonusCritic(3)]
    states = embeddings()
    for critic, is_on in zip(critics, (True, False), strict=True):
        with torch.set_grad_enabled(is_on):
            critic.fit(states, states[:, 0])
    assert torch.equal(*map(parameters, critics))
    assert not torch.equal(parameters(critics[0]), parameters(BonusCritic(3)))
    assert all(parameter.grad is None for parameter in critics[0].parameters())


def test_weights_depend_on_the_seed_alone():
    torch.manual_seed(1)
    first = BonusCritic(3, seed=7)
    before = torch.random.get_rng_state()
    second = BonusCritic(3, seed=7)
    second.fit(embeddings(), embeddings()[:, 0])
    assert torch.equal(torch.random.get_rng_state(), before), "no number of the training's own generator is drawn"
    assert torch.equal(parameters(first), parameters(BonusCritic(3, seed=7)))
    assert not torch.equal(parameters(first), parameters(BonusCritic(3, seed=8)))


def test_a_loaded_critic_learns_on_bit_by_bit():
    whole, saved, loaded = (BonusCritic(3) for _ in range(3))
    loaded.fit(embeddings(seed=9), embeddings(seed=9)[:, 1])
    for fit in range(4):
        states = embeddings(seed=fit)
        if fit == 2:
            loaded.load_state_dict(saved.state_dict())
        for critic in {0: (whole, saved), 1: (whole, saved)}.get(fit, (whole, loaded)):
            critic.observe(states)
            critic.fit(critic.scaled(states), states.sum(dim=1))
    assert torch.equal(parameters(loaded), parameters(whole))
    assert all(torch.equal(one, other) for one, other in zip(whole.buffers(), loaded.buffers(), strict=True))
