"""An optimiser's form inside and outside a CUDA graph."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import torch
from torch.optim import SGD, Adam, AdamW, NAdam, Optimizer, RMSprop

from revd.fast.optimizers import CapturableMode, align_state, foreach_stepping, is_capturable, state_tensors

CPU = torch.device("cpu")


def stepped(kind: type[Optimizer], **options: Any) -> Optimizer:
    weight = torch.nn.Parameter(torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last))
    optimizer = kind([weight], lr=0.5, **options)  # type: ignore[call-arg]
    weight.grad = torch.rand_like(weight)
    optimizer.step()
    return optimizer


def test_which_kinds_can_be_captured() -> None:
    assert is_capturable(stepped(Adam))
    assert is_capturable(stepped(RMSprop))
    assert not is_capturable(stepped(SGD))


@pytest.mark.parametrize(("kind", "fused"), [(Adam, True), (RMSprop, None)])
def test_the_form_lasts_as_long_as_the_with(kind: type[Optimizer], fused: bool | None) -> None:
    optimizer = stepped(kind)
    before = str(optimizer.state_dict())
    form = CapturableMode(optimizer, CPU)
    group = optimizer.param_groups[0]
    with suppress(ZeroDivisionError), form.enabled():
        assert group["lr"] is form.rates[0]
        assert float(group["lr"]) == 0.5
        assert group["capturable"] is True
        assert group.get("fused") is fused
        _ = 1 / 0  # it ends, however it ends
    assert str(optimizer.state_dict()) == before


def test_rates_stay_in_place_and_follow_the_schedule() -> None:
    optimizer = stepped(Adam)
    form = CapturableMode(optimizer, CPU)
    rate = form.rates[0]
    optimizer.param_groups[0]["lr"] = 0.25
    with form.enabled():
        assert optimizer.param_groups[0]["lr"] is rate
        assert float(rate) == 0.25


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": False}, {"foreach": False}])
def test_a_users_choice_of_kernels_is_kept(options: dict[str, bool]) -> None:
    optimizer = stepped(Adam, **options)
    with CapturableMode(optimizer, CPU).enabled():
        assert {name: optimizer.param_groups[0][name] for name in options} == options


def test_moments_take_the_layout_of_their_parameters() -> None:
    optimizer = stepped(Adam)
    weight = optimizer.param_groups[0]["params"][0]
    moments = optimizer.state[weight]
    values = moments["exp_avg"].clone()
    moments["exp_avg"] = moments["exp_avg"].contiguous()
    kept = moments["exp_avg_sq"]
    align_state(optimizer)
    assert moments["exp_avg"].stride() == weight.stride()
    assert torch.equal(moments["exp_avg"], values)
    assert moments["exp_avg_sq"] is kept
    assert {id(part) for part in state_tensors(optimizer)} == {id(part) for part in moments.values()}


@pytest.mark.parametrize("kind", [Adam, AdamW, RMSprop, SGD])
def test_stepping_together_gives_the_same_numbers_and_leaves_no_trace(kind: type[Optimizer]) -> None:
    torch.manual_seed(0)
    optimizers = []
    for _ in range(2):
        parameters = [torch.nn.Parameter(torch.linspace(-1, 1, size)) for size in (5, 7)]
        optimizers.append(kind(parameters, lr=0.1))  # type: ignore[call-arg]
    plain, together = optimizers
    for _ in range(5):
        for one, other in zip(*(optimizer.param_groups[0]["params"] for optimizer in optimizers), strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        plain.step()
        with suppress(ZeroDivisionError), foreach_stepping(together):
            assert together.param_groups[0]["foreach"] is True
            together.step()
            _ = 1 / 0
    assert str(plain.state_dict()) == str(together.state_dict())
    for one, other in zip(*(optimizer.param_groups[0]["params"] for optimizer in optimizers), strict=True):
        assert torch.equal(one, other)


def test_what_the_user_has_chosen_and_what_would_round_differently_is_left_alone() -> None:
    unlike = stepped(NAdam)
    with foreach_stepping(unlike):
        assert unlike.param_groups[0]["foreach"] is None
    optimizer = stepped(Adam, foreach=False)
    with foreach_stepping(optimizer):
        assert optimizer.param_groups[0]["foreach"] is False
