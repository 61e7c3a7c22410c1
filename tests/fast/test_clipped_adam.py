"""Clipping and Adam in few kernels, against torch's: in Triton's interpreter where there is no GPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import Adam, AdamW, Optimizer

pytest.importorskip("triton", reason="Triton is not made for this system")

from revd.fast import clipped_adam
from revd.fast.optimizers import CapturableMode

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPES = [(1,), (7, 5), (3, 700), (2048,), (1, 4097), (8, 4, 3, 3), (1,)]


def weights() -> list[nn.Parameter]:
    torch.manual_seed(0)
    tensors = [torch.randn(shape, device=DEVICE) for shape in SHAPES]
    return [
        nn.Parameter(tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor) for tensor in tensors
    ]


def give_gradients(parameters: list[nn.Parameter], scale: float) -> None:
    for parameter in parameters:
        parameter.grad = scale * torch.randn_like(parameter)


def warm(kind: type[Optimizer] = Adam, **options: Any) -> tuple[Optimizer, list[nn.Parameter]]:
    parameters = weights()
    optimizer = kind(parameters, lr=0.01, eps=1e-5, **options)  # type: ignore[call-arg]
    give_gradients(parameters, 1.0)
    optimizer.step()
    return optimizer, parameters


@pytest.mark.parametrize("most", [64, 3], ids=["one launch", "several launches"])
@pytest.mark.parametrize("max_norm", [0.5, 1e6], ids=["clipped", "within the norm"])
def test_steps_are_those_of_torch(max_norm: float, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipped_adam, "TENSORS_PER_LAUNCH", most)
    optimizer, parameters = warm(betas=(0.8, 0.99))
    reference, theirs = copy.deepcopy((optimizer, parameters))
    form = CapturableMode(optimizer, DEVICE)
    for turn in range(4):
        give_gradients(parameters, 10.0**-turn)
        for ours, other in zip(parameters, theirs, strict=True):
            other.grad = None if ours.grad is None else ours.grad.clone()
        for each in (optimizer, reference):
            each.param_groups[0]["lr"] = 0.01 / (turn + 1)
        with form.enabled():
            assert clipped_adam.can_step(optimizer, parameters)
            clipped_adam.step(optimizer, parameters, max_norm)
        nn.utils.clip_grad_norm_(theirs, max_norm)
        reference.step()
        for ours, other in zip(parameters, theirs, strict=True):
            torch.testing.assert_close(ours, other, rtol=1e-6, atol=1e-7)
            for name, value in reference.state[other].items():
                torch.testing.assert_close(optimizer.state[ours][name].cpu(), value.cpu(), rtol=1e-5, atol=1e-7)


def test_a_gradient_that_is_not_a_number_spoils_all_as_it_does_in_torch() -> None:
    optimizer, parameters = warm()
    parameters[0].grad = torch.full_like(parameters[0], torch.nan)
    with CapturableMode(optimizer, DEVICE).enabled():
        clipped_adam.step(optimizer, parameters, 0.5)
    assert all(parameter.isnan().all() for parameter in parameters)


@pytest.mark.parametrize(
    "options",
    [{"amsgrad": True}, {"weight_decay": 0.1}, {"maximize": True}, {"foreach": True}, {"betas": (0.0, 0.9)}],
    ids=str,
)
def test_variants_of_adam_are_left_to_torch(options: dict[str, Any]) -> None:
    optimizer, parameters = warm(**options)
    with CapturableMode(optimizer, DEVICE).enabled():
        assert not clipped_adam.can_step(optimizer, parameters)


def test_so_is_what_is_not_adam_warm_or_in_one_layout() -> None:
    optimizer, parameters = warm(AdamW, weight_decay=0.0)
    with CapturableMode(optimizer, DEVICE).enabled():
        assert not clipped_adam.can_step(optimizer, parameters)
    optimizer, parameters = warm()
    with CapturableMode(optimizer, DEVICE).enabled():
        assert clipped_adam.can_step(optimizer, parameters)
        assert not clipped_adam.can_step(optimizer, [])
        assert not clipped_adam.can_step(optimizer, parameters[1:]), "one is not clipped"
        optimizer.state[parameters[-2]]["exp_avg"] = optimizer.state[parameters[-2]]["exp_avg"].contiguous()
        assert not clipped_adam.can_step(optimizer, parameters), "moments lie otherwise than their parameter"
        optimizer.state.clear()
        assert not clipped_adam.can_step(optimizer, parameters), "there are no moments yet"
    optimizer = Adam([{"params": parameters[:2]}, {"params": parameters[2:]}])
    with CapturableMode(optimizer, DEVICE).enabled():
        assert not clipped_adam.can_step(optimizer, parameters), "two groups"
