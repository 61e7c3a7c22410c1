import copy

import pytest
import torch
from torch import nn

from revd.rewards.optimizer import AdamState


def step(adam: torch.optim.Optimizer, model: nn.Module, seed: int) -> None:
    adam.zero_grad()
    model(torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))).square().sum().backward()
    adam.step()


def test_an_adam_made_anew_for_every_step_is_one_adam() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    reference = copy.deepcopy(model)
    fused = torch.optim.Adam(reference.parameters(), lr=0.1, fused=True)
    state = AdamState(model.parameters())
    for seed in range(5):
        step(state.optimizer(model.parameters(), 0.1), model, seed)
        step(fused, reference, seed)
    assert torch.equal(model.weight, reference.weight)
    assert torch.equal(model.bias, reference.bias)


def test_a_step_with_given_gradients_is_a_step_of_that_adam() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    reference = copy.deepcopy(model)
    state, its_state = AdamState(model.parameters()), AdamState(reference.parameters())
    for seed in range(6):
        step(its_state.optimizer(reference.parameters(), 0.1), reference, seed)
        gradients = [parameter.grad for parameter in reference.parameters()]
        if seed % 3:
            state.step(list(model.parameters()), gradients, 0.1)
        else:
            step(state.optimizer(model.parameters(), 0.1), model, seed)
        assert all(map(torch.equal, model.parameters(), reference.parameters()))
    assert all(map(torch.equal, state.buffers(), its_state.buffers()))


def test_the_state_travels_with_the_state_dict() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    state = AdamState(model.parameters())
    step(state.optimizer(model.parameters(), 0.1), model, 0)
    other, other_state = copy.deepcopy(model), AdamState(model.parameters())
    other_state.load_state_dict(state.state_dict())
    assert float(other_state.step_0) == 1
    for each, its_state in ((model, state), (other, other_state)):
        step(its_state.optimizer(each.parameters(), 0.1), each, 1)
    assert torch.equal(model.weight, other.weight)


def test_other_parameters_are_refused() -> None:
    model = nn.Linear(3, 2)
    state = AdamState(model.parameters())
    with pytest.raises(ValueError, match="the state was made for 2 parameters, got 1"):
        state.optimizer([model.weight], 0.1)
