"""Adam in one buffer against torch's; clipping against torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW

from revd.fast.flat_adam import FlatAdam, FlatTensors, clip_gradients, is_plain_adam

#: Sizes that fill no vector register, and one of more than a thread's share of work.
SHAPES = [(1,), (3,), (5, 7), (64,), (17, 2), (200, 200)]


def make_parameters(seed: int = 0) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def make_gradients(step: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(step)
    return [10.0 ** (-3 * (step % 4)) * torch.randn(shape, generator=generator) for shape in SHAPES]


def step_with_torch(parameters: list[nn.Parameter], optimizer: Adam, steps: range) -> None:
    for step in steps:
        for parameter, gradient in zip(parameters, make_gradients(step), strict=True):
            parameter.grad = gradient
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()


def step_flat(parameters: list[nn.Parameter], optimizer: Adam, steps: range) -> None:
    gradients = FlatTensors([parameter.shape for parameter in parameters])
    flat = FlatAdam(parameters, gradients)
    flat.load(optimizer)
    for step in steps:
        gradients.load(make_gradients(step))
        clip_gradients(gradients, 0.5)
        flat.step()
    flat.store(optimizer)


def test_steps_equal_torchs_to_the_last_bit_also_in_turns() -> None:
    turns: list[Callable[..., None]] = [step_flat, step_with_torch, step_flat]
    found, expected = make_parameters(), make_parameters()
    ours, theirs = (Adam(each, lr=3e-3, betas=(0.8, 0.99), eps=1e-5) for each in (found, expected))
    for turn, step in enumerate(turns):
        steps = range(10 * turn, 10 * turn + 10)
        step(found, ours, steps)
        step_with_torch(expected, theirs, steps)
        for our, their in zip(found, expected, strict=True):
            assert torch.equal(our, their)
            for name, value in theirs.state[their].items():
                assert torch.equal(ours.state[our][name], value), name


def test_no_step_leaves_the_optimizer_without_state() -> None:
    parameters = make_parameters()
    optimizer = Adam(parameters)
    step_flat(parameters, optimizer, range(0))
    assert not optimizer.state
    assert all(torch.equal(*pair) for pair in zip(parameters, make_parameters(), strict=True))


def test_tensors_are_aligned_and_do_not_overlap() -> None:
    flat = FlatTensors([torch.Size(shape) for shape in SHAPES])
    for number, view in enumerate(flat.views):
        view.fill_(number + 1)
        assert view.data_ptr() % 64 == 0
        assert view.is_contiguous()
    assert [view.unique().tolist() for view in flat.views] == [[number + 1] for number in range(len(SHAPES))]


OPTIONS: list[dict[str, Any]] = [
    {"weight_decay": 0.1},
    {"amsgrad": True},
    {"maximize": True},
    {"foreach": True},
    {"fused": True},
    {"differentiable": True},
    {"lr": torch.tensor(0.1)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: next(iter(options)))
def test_options_are_left_to_torch(options: dict[str, Any]) -> None:
    parameters = make_parameters()
    assert is_plain_adam(Adam(parameters), parameters)
    assert not is_plain_adam(Adam(parameters, **options), parameters)


def test_other_optimizers_groups_and_parameters_are_left_to_torch() -> None:
    parameters = make_parameters()
    groups = [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.5}]
    assert not is_plain_adam(AdamW(parameters), parameters)
    assert not is_plain_adam(Adam(groups), parameters)
    assert not is_plain_adam(Adam(parameters[1:]), parameters)


def test_hooks_and_schedulers_are_left_to_torch() -> None:
    parameters = make_parameters()
    optimizer = Adam(parameters)
    handle = optimizer.register_step_post_hook(lambda *_: None)
    assert not is_plain_adam(optimizer, parameters)
    handle.remove()
    assert is_plain_adam(optimizer, parameters)
    torch.optim.lr_scheduler.ConstantLR(optimizer)
    assert not is_plain_adam(optimizer, parameters)


def test_steps_that_differ_between_parameters_are_left_to_torch() -> None:
    parameters = make_parameters()
    optimizer = Adam(parameters)
    step_with_torch(parameters, optimizer, range(2))
    assert is_plain_adam(optimizer, parameters)
    optimizer.state[parameters[0]]["step"] += 1
    assert not is_plain_adam(optimizer, parameters)
