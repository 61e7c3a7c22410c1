"""Contracts about the fields of a reward's config: each of them has its effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from revd.rewards.config import RewardConfig
from revd.testing.subject import equal, expect, outputs

if TYPE_CHECKING:
    from revd.rollout import Rollout
    from revd.testing.subject import Subject


def check_normalize(subject: Subject) -> None:
    """normalize="rms" divides the bonus by the standard deviation of all bonuses so far, unless it is constant."""
    plain, divided = subject.make_with(normalize="none"), subject.make_with(normalize="rms")
    seen: list[Tensor] = []
    for rollout in subject.rollouts(5, ragged=True):
        raw, bonus = plain.compute(rollout), divided.compute(rollout)
        if raw.any():
            seen.append(raw[rollout.valid.to(raw.device)].double())
        joined = torch.cat(seen) if seen else torch.zeros(1)
        scale = joined.std(unbiased=False)
        expected = raw / scale if scale > 1e-6 * joined.mean().abs() else raw
        close = torch.allclose(bonus.double(), expected.double(), rtol=1e-4, atol=1e-6)
        expect(close, "normalize='rms' did not divide by the running standard deviation", "bonus / std so far")
        plain.update(rollout)
        divided.update(rollout)


def check_parameters_matter(subject: Subject) -> None:
    """Every parameter changes a bonus or a loss for some value of it.

    `normalize` has its own check, and `seed` has no effect on a method without random numbers. Both are checked if
    `parameters` names them.
    """
    config = subject.make().config
    unknown = set(subject.parameters) - {entry.name for entry in fields(config)}
    expect(not unknown, f"parameters names {sorted(unknown)}", f"fields of {type(config).__name__}")
    inherited = {entry.name for entry in fields(RewardConfig)}
    for name in (entry.name for entry in fields(config)):
        if name not in inherited or name in subject.parameters:
            value = getattr(config, name)
            expect(
                _has_effect(subject, name, config),
                f"{name} = {value!r} could be changed without any effect on bonus or loss",
                f"a parameter with an effect, or parameters={{{name!r}: …}} with values that show it",
            )


def _has_effect(subject: Subject, name: str, config: RewardConfig) -> bool:
    """Whether some other value of a parameter changes a bonus or a loss."""
    # Short episodes, long ones, which fill a memory, and states that come again.
    more = (*subject.rollouts(3, seed=1, done_rate=0.0), *subject.rollouts(2, seed=2, duplicate_rate=0.5))
    rollouts = [*subject.rollouts(), *more]
    for context, values in _given_values(subject, name) or _candidate_values(config, name):
        before = _outputs(subject, context, rollouts)
        if before is None:
            continue
        others = (_outputs(subject, {**context, name: value}, rollouts) for value in values)
        if any(after is not None and not equal(before, after) for after in others):
            return True
    return False


def _given_values(subject: Subject, name: str) -> list[tuple[dict[str, Any], list[Any]]]:
    """The caller's values for a parameter: those of other parameters, and its own."""
    if name not in subject.parameters:
        return []
    values = dict(subject.parameters[name])
    expect(name in values, f"parameters[{name!r}] is {values}", f"a value of {name} among others")
    value = values.pop(name)
    return [(values, [value])]


def _outputs(subject: Subject, parameters: Mapping[str, Any], rollouts: list[Rollout]) -> list[Tensor] | None:
    """Bonuses and losses with other parameters; None if these are out of range or the rollouts too short."""
    # If the reward uses the global generator, its state must not count as an effect.
    torch.manual_seed(0)
    try:
        return outputs(subject.make_with(**parameters), rollouts)
    except ValueError:
        return None


def _candidate_values(config: RewardConfig, name: str) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Other values of one parameter, first alone, then with other values of one or two switches."""
    switches = [entry.name for entry in fields(config) if entry.name != name and _is_switch(config, entry.name)]
    for count in range(3):
        for names in combinations(switches, count):
            for chosen in product(*(other_values(config, switch) for switch in names)):
                yield dict(zip(names, chosen, strict=True)), other_values(config, name)


def other_values(config: RewardConfig, name: str) -> list[Any]:
    """Other plausible values of a parameter, by its type and its present value."""
    value = getattr(config, name)
    choices = _literal_choices(config, name)
    return [choice for choice in choices if choice != value] if choices else _others(value)


def _others(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, dict):
        # A mixture's: its members' parameters, and their weights.
        return [{**value, key: other} for key, entry in value.items() for other in _others(entry)]
    if isinstance(value, int):
        return [
            number
            for number in (value + 1, value - 1, 2 * value, value // 2, 1, 2, 4, 8, 16, 32, 64)
            if number != value
        ]
    if isinstance(value, float):
        numbers = (1.2 * value, value / 2, 2 * value, value / 10, 10 * value, 0.0, 0.1, 0.5, 1.0, 2.0)
        return [number for number in numbers if number != value]
    return []


def _is_switch(config: RewardConfig, name: str) -> bool:
    return isinstance(getattr(config, name), bool) or bool(_literal_choices(config, name))


def _literal_choices(config: RewardConfig, name: str) -> tuple[Any, ...]:
    hint = get_type_hints(type(config)).get(name)
    return get_args(hint) if get_origin(hint) is Literal else ()
