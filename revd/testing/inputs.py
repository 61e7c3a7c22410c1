"""Contracts about inputs: rollouts are read, only where they are valid, and never written to."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from revd.rollout import Rollout, map_observations
from revd.testing.samples import changed, with_garbage
from revd.testing.subject import differences, equal, expect, fail, outputs, same, state_of

if TYPE_CHECKING:
    from revd.rollout import Observations
    from revd.testing.subject import Subject


def check_input_untouched(subject: Subject) -> None:
    """Neither `compute` nor `update` writes into the rollout."""
    reward = subject.make()
    for rollout in subject.rollouts(ragged=True):
        before = deepcopy(rollout)
        reward.compute(rollout)
        reward.update(rollout)
        for field in fields(Rollout):
            kept = _same_observations(getattr(before, field.name), getattr(rollout, field.name))
            expect(kept, f"the rollout's {field.name} were written to", "an unchanged rollout")


def check_no_aliasing(subject: Subject) -> None:
    """Later changes to a bonus or a rollout do not change the reward's memory."""
    reward, other = subject.make(), subject.make()
    for rollout in subject.rollouts():
        mine = deepcopy(rollout)
        bonus = reward.compute(mine)
        expected = other.compute(rollout)
        expect(
            torch.equal(bonus, expected),
            "writing to an earlier bonus or rollout changed this bonus",
            "a memory that holds copies",
        )
        bonus.fill_(7)
        for values in (mine.observations, mine.successors):
            map_observations(lambda tensor: tensor.fill_(1), values)
        mine.actions.fill_(0)


def check_successors(subject: Subject) -> None:
    """A reward with `uses_successors = False` pays the same without successors."""
    reward, other = subject.make(), subject.make()
    if reward.uses_successors:
        return
    rollouts = subject.rollouts()
    without = [changed(rollout, next_observations=None) for rollout in rollouts]
    alike = equal(outputs(reward, without), outputs(other, rollouts))
    expect(alike, "without next_observations the bonus or a loss is different", "uses_successors = True")


def check_padding(subject: Subject) -> None:
    """Steps beyond `lengths` are paid 0, and their values, NaN included, have no effect."""
    reward, other = subject.make(), subject.make()
    for rollout in subject.rollouts(ragged=True):
        clean = _without_garbage(rollout)
        bonus = reward.compute(rollout)
        expect(not bonus[~rollout.valid.to(bonus.device)].any(), "a padded step was paid", "0 for padded steps")
        paid = torch.equal(bonus, other.compute(clean))
        expect(paid, "values of padded steps changed the bonus", "a bonus of valid steps alone (rollout.valid)")
        trained = reward.update(rollout) == other.update(clean)
        expect(trained, "values of padded steps changed the losses", "losses of valid steps alone (rollout.steps)")


def check_empty_rollout(subject: Subject) -> None:
    """A rollout without a single valid step is paid 0 and changes no memory."""
    reward, other = subject.make(), subject.make()
    for rollout in subject.rollouts():
        empty = with_garbage(changed(rollout, lengths=torch.zeros(rollout.n_envs, dtype=torch.int64)))
        bonus = reward.compute(empty)
        expect(not bonus.any(), "a rollout without a valid step was paid", "zeros")
        losses = reward.update(empty)
        expect(losses == {}, f"a rollout without a valid step was trained on: {losses}", "{}")
        kept = equal(outputs(reward, [rollout]), outputs(other, [rollout]))
        expect(kept, "a rollout without a valid step changed later bonuses or losses", "no change at all")


def check_bad_rollout(subject: Subject) -> None:
    """A rollout with other environments, NaN or missing parts is a ValueError that leaves the reward unchanged."""
    reward = subject.make()
    for rollout in subject.rollouts(2):
        bad_rollouts = _make_bad_rollouts(subject, rollout)
        if reward.uses_successors:
            bad_rollouts["a rollout without next_observations"] = changed(rollout, next_observations=None)
        for what, bad in bad_rollouts.items():
            before = state_of(reward)
            try:
                reward.compute(bad)
            except ValueError:
                wrong = differences(before, state_of(reward))
                expect(not wrong, f"{what} was an error, but changed {', '.join(wrong)}", "an unchanged state")
            else:
                fail(f"{what} was paid without an error", "a ValueError that says what is wrong")
        outputs(reward, [rollout])


def _make_bad_rollouts(subject: Subject, rollout: Rollout) -> dict[str, Rollout]:
    (other,) = subject.rollouts(1, n_envs=rollout.n_envs + 1)
    bad = {"a rollout of another number of environments": other}
    observations = rollout.observations
    if isinstance(observations, Tensor) and observations.is_floating_point():
        values = observations.clone()
        values[-1, -1] = torch.nan
        bad["a rollout with NaN among its observations"] = changed(rollout, observations=values)
    return bad


def _without_garbage(rollout: Rollout) -> Rollout:
    """Copy a rollout, with the values of a valid step in every padded one."""

    def fill(values: Tensor) -> Tensor:
        padded = ~rollout.valid
        filled = values.clone()
        filled[padded] = values[0, 0]
        return filled

    return changed(
        rollout,
        observations=map_observations(fill, rollout.observations),
        next_observations=map_observations(fill, rollout.successors),
        dones=rollout.dones & rollout.valid,
    )


def _same_observations(one: Observations | None, other: Observations | None) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and all(_same_observations(value, other[key]) for key, value in one.items())
    return one is other or (isinstance(one, Tensor) and isinstance(other, Tensor) and same(one, other))
