"""Contracts about a reward's state: all of it is in parameters and buffers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from revd.testing.subject import differences, equal, expect, outputs, state_of

if TYPE_CHECKING:
    from revd.rewards import IntrinsicReward
    from revd.testing.subject import Subject


def check_state(subject: Subject) -> None:
    """A saved state, loaded into a fresh or a used reward, continues with exactly equal results."""
    rollouts = subject.rollouts(6, duplicate_rate=0.2)
    for used in (False, True):
        reward, copied = subject.make(), subject.make()
        outputs(reward, rollouts[:3])
        if used:
            outputs(copied, subject.rollouts(2, seed=9, n_steps=subject.n_steps + 5))
        copied.load_state_dict(load(save(state_of(reward))))
        where = "a used reward" if used else "a fresh reward"
        _expect_equal_state(reward, copied, f"just loaded into {where}")
        equal_later = equal(outputs(reward, rollouts[3:]), outputs(copied, rollouts[3:]))
        expect(
            equal_later,
            f"with its state loaded into {where}, later results differ",
            "equal results: all state in parameters or buffers",
        )
        same_metrics = reward.metrics() == copied.metrics()
        expect(same_metrics, f"with its state loaded into {where}, metrics() differ", "the same metrics")
        _expect_equal_state(reward, copied, f"after resuming in {where}")


def check_end_of_episodes(subject: Subject) -> None:
    """`end_episodes` ends running episodes; if none is running, it changes nothing."""
    reward = subject.make()
    for rollout in [None, *subject.rollouts(2)]:
        if rollout is not None:
            outputs(reward, [rollout])
            reward.end_episodes()
        before = state_of(reward)
        reward.end_episodes()
        wrong = differences(before, state_of(reward))
        expect(not wrong, f"end_episodes() with no episode running changed {', '.join(wrong)}", "no change")


def check_frozen_parameters(subject: Subject) -> None:
    """Parameters without a gradient never change; others change only in `update`."""
    reward = subject.make()
    for rollout in subject.rollouts():
        # Training loops call this; frozen modules must stay in eval mode.
        reward.train()
        before = _parameters(reward, frozen_only=False)
        reward.compute(rollout)
        wrong = differences(before, _parameters(reward, frozen_only=False))
        expect(not wrong, f"compute changed the parameters {', '.join(wrong)}", "training only in update")
        before = _parameters(reward, frozen_only=True)
        reward.update(rollout)
        wrong = differences(before, _parameters(reward, frozen_only=True))
        expect(
            not wrong, f"update changed {', '.join(wrong)}, which are frozen", "no change where there is no gradient"
        )


def check_device(subject: Subject) -> None:
    """`.to(device)` moves all tensors: none, and no device, is stored outside parameters and buffers.

    Only if torch has CUDA, `compute` and `update` also run on a GPU and are compared with the CPU.
    """
    reward = subject.make()
    outputs(reward, subject.rollouts(2))
    hidden = list(_tensors_outside_state(reward))
    expect(
        not hidden,
        f"{', '.join(hidden)} is not moved by .to(device)",
        "tensors in buffers, and the device read from reward.device",
    )
    # Every machine has this device. It holds no numbers, but shows what moves.
    reward.to("meta")
    expect(reward.device.type == "meta", f"after .to('meta') the device is {reward.device}", "the device moved to")
    if torch.cuda.is_available():
        _check_against_cpu(subject, torch.device("cuda"))


def _check_against_cpu(subject: Subject, device: torch.device) -> None:
    reward, moved = subject.make(), subject.make().to(device)
    for rollout in subject.rollouts():
        bonus = moved.compute(rollout)
        expect(bonus.device == moved.device, f"the bonus is on {bonus.device}", f"reward.device, {moved.device}")
        close = torch.allclose(bonus.cpu(), reward.compute(rollout), rtol=1e-2, atol=1e-3)
        expect(close, f"the bonus on {device} differs from that on the CPU", "the same up to rounding")
        moved.update(rollout)
        reward.update(rollout)
        # To the CPU and back: nothing may stay on the device.
        moved.to("cpu").to(device)


def _expect_equal_state(reward: IntrinsicReward, copied: IntrinsicReward, when: str) -> None:
    wrong = differences(state_of(reward), state_of(copied))
    expect(not wrong, f"{when}, {', '.join(wrong)} differ from the original", "equal states")


def _parameters(reward: IntrinsicReward, *, frozen_only: bool) -> dict[str, Tensor]:
    """Copies of the parameters, and of BatchNorm's statistics, which are frozen with its parameters."""
    found = {}
    for prefix, module in reward.named_modules():
        own = dict(module.named_parameters(prefix=prefix, recurse=False))
        frozen = {name: value for name, value in own.items() if not value.requires_grad}
        found.update(frozen if frozen_only else own)
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and len(frozen) == len(own):
            found.update(module.named_buffers(prefix=prefix, recurse=False))
    return {name: value.detach().clone() for name, value in found.items()}


def _tensors_outside_state(reward: IntrinsicReward) -> Iterator[str]:
    """Names of the tensors and devices among the plain attributes of a reward's modules."""
    for prefix, module in reward.named_modules():
        for name, value in vars(module).items():
            if name not in ("_parameters", "_buffers", "_modules"):
                yield from _tensors(f"{prefix}.{name}" if prefix else name, value)


def _tensors(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Tensor | torch.device) or (
        isinstance(value, str) and re.fullmatch(r"(cpu|cuda)(:\d+)?", value)
    ):
        yield name
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _tensors(f"{name}[{key!r}]", part)
    elif isinstance(value, list | tuple | set | frozenset):
        for index, part in enumerate(value):
            yield from _tensors(f"{name}[{index}]", part)
