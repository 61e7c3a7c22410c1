"""Contracts about outputs: bonuses, losses and metrics, and that they are reproducible."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from revd.rollout import map_observations
from revd.testing.samples import changed
from revd.testing.subject import differences, equal, expect, outputs, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from revd.rewards import IntrinsicReward
    from revd.rollout import Rollout
    from revd.testing.subject import Subject


def check_shape(subject: Subject) -> None:
    """`compute` returns one number for every step of every environment, for any number of both."""
    for n_envs in (1, 2, 5):
        reward = subject.make(n_envs)
        for n_steps in (subject.n_steps, subject.n_steps + 1):
            (rollout,) = subject.rollouts(1, n_steps=n_steps, n_envs=n_envs)
            bonus = reward.compute(rollout)
            kind = type(bonus).__name__
            expect(isinstance(bonus, Tensor), f"compute returned a {kind}", "a tensor")
            expect(
                tuple(bonus.shape) == (n_steps, n_envs),
                f"a rollout of n_steps = {n_steps}, n_envs = {n_envs} was paid {tuple(bonus.shape)}",
                "(n_steps, n_envs)",
            )


def check_dtype(subject: Subject) -> None:
    """Bonuses are float32 on the reward's device and without gradient, for observations of any precision."""
    for dtype in (torch.float32, torch.float64, torch.float16):
        reward = subject.make()
        for rollout in subject.rollouts(3):
            bonus = reward.compute(_in_precision(rollout, dtype))
            expect(bonus.dtype == torch.float32, f"observations of {dtype} were paid in {bonus.dtype}", "float32")
            expect(bonus.device == reward.device, f"the bonus is on {bonus.device}", f"reward.device, {reward.device}")
            expect(not bonus.requires_grad, "the bonus has a gradient", "a bonus without one")
            reward.update(rollout)


def check_finite(subject: Subject) -> None:
    """No bonus or loss is NaN or infinite, for ordinary and for unusual states.

    Observations of 1e30 or 1e-30 times their size may be a ValueError instead. So may short rollouts, if
    `check_rollout_length` raises one for them.
    """
    still = [changed(rollout, **_constant(rollout)) for rollout in subject.rollouts(3)]
    for what, rollouts in {
        "ordinary rollouts": subject.rollouts(),
        "rollouts in which half of the states are duplicates": subject.rollouts(duplicate_rate=0.5),
        "rollouts in which every state is the same": still,
        "rollouts in which every step ends an episode": subject.rollouts(done_rate=1.0),
    }.items():
        _expect_finite(subject.make(), what, rollouts)
    for factor in (1e30, 1e-30):
        with suppress(ValueError):
            rollouts = [_scaled(rollout, factor) for rollout in subject.rollouts()]
            _expect_finite(subject.make(), f"observations of {factor:g} times their size", rollouts)
    for n_steps in (1, 2, 3):
        reward = subject.make()
        if _accepts_length(reward, n_steps):
            _expect_finite(reward, f"rollouts of n_steps = {n_steps}", subject.rollouts(n_steps=n_steps))


def _expect_finite(reward: IntrinsicReward, what: str, rollouts: Sequence[Rollout]) -> None:
    for found in outputs(reward, rollouts):
        finite = bool(found.isfinite().all())
        expect(finite, f"{what} gave a bonus or loss that is NaN or infinite", "finite numbers")


def check_metrics(subject: Subject) -> None:
    """`metrics` returns finite floats about the last `compute`, in a new dict each time."""
    reward = subject.make()
    expect(reward.metrics() == {}, f"a fresh reward has the metrics {reward.metrics()}", "none before compute")
    for rollout in subject.rollouts(3, duplicate_rate=0.3):
        bonus = reward.compute(rollout)
        metrics = reward.metrics()
        for name, value in metrics.items():
            finite = isinstance(value, float) and bool(np.isfinite(value))
            expect(finite, f"metrics()[{name!r}] is {value!r}", "a finite float")
        # Compared with the size of the bonuses, since those of both signs may cancel to a mean of rounding errors.
        mean, size = float(bonus.mean()), float(bonus.abs().mean())
        close = "bonus_mean" in metrics and abs(metrics["bonus_mean"] - mean) <= 1e-5 * max(size, 1e-30)
        expect(close, f"metrics()['bonus_mean'] is {metrics.get('bonus_mean')}", f"the mean of the bonus, {mean}")
        metrics["bonus_mean"] = np.nan
        kept = reward.metrics()["bonus_mean"] == reward.metrics()["bonus_mean"]
        expect(kept, "writing into metrics() changed the next metrics()", "a copy")


def check_determinism(subject: Subject) -> None:
    """Equal seeds give equal numbers, whatever the state of the global generators, which are not used.

    The constructor may draw from torch's, since every `nn.Linear` does. It may not seed it.
    """
    rollouts = subject.rollouts()
    rewards, made = [], []
    for seed in (1, 2):
        torch.manual_seed(seed)
        rewards.append(subject.make())
        made.append(_generators()["torch"])
    expect(made[0] != made[1], "making the reward seeds torch's global generator", "a torch.Generator of its own")
    before = _generators()
    unlike = differences(*map(state_of, rewards))
    found = [outputs(reward, rollouts) for reward in rewards]
    for name, state in _generators().items():
        kept = state == before[name]
        expect(kept, f"{name}'s global generator was used", "a generator of the reward's own, made from its seed")
    seen = "two rewards with equal parameters paid differently"
    if unlike:
        seen += f", and started with different {', '.join(unlike)}"
    expect(equal(*found), seen, "equal bits, from a torch.Generator seeded with config.seed")


def check_counting(subject: Subject) -> None:
    """`calls` counts `compute`, and `update` changes no count."""
    reward = subject.make()
    for count, rollout in enumerate([None, *subject.rollouts(3)]):
        if rollout is not None:
            reward.compute(rollout)
            reward.update(rollout)
        expect(int(reward.calls) == count, f"calls is {int(reward.calls)} after {count} compute", f"{count}")


def _accepts_length(reward: IntrinsicReward, n_steps: int) -> bool:
    try:
        reward.check_rollout_length(n_steps)
    except ValueError:
        return False
    return True


def _in_precision(rollout: Rollout, dtype: torch.dtype) -> Rollout:
    return _with_reals(rollout, lambda values: values.to(dtype))


def _scaled(rollout: Rollout, factor: float) -> Rollout:
    return _with_reals(rollout, lambda values: values * factor)


def _with_reals(rollout: Rollout, change: Callable[[Tensor], Tensor]) -> Rollout:
    """Copy a rollout and change the floating-point numbers in its observations."""

    def convert(values: Tensor) -> Tensor:
        return change(values) if values.is_floating_point() else values

    names = ("observations", "next_observations")
    return changed(rollout, **{name: map_observations(convert, getattr(rollout, name)) for name in names})


def _constant(rollout: Rollout) -> dict[str, Any]:
    """Observations that all equal the rollout's first."""
    still = map_observations(lambda values: values[:1, :1].expand_as(values).clone(), rollout.observations)
    return {"observations": still, "next_observations": still}


def _generators() -> dict[str, Any]:
    """The state of every global generator, as comparable values."""
    _, keys, position, *_ = np.random.get_state()  # noqa: NPY002
    return {"torch": torch.get_rng_state().tolist(), "NumPy": ([*keys], position), "Python": random.getstate()}
