"""The bonus waits while a dense reward still teaches, and only then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from stable_baselines3.common.vec_env import VecNormalize

from revd.sb3 import IntrinsicRewardCallback
from tests.support.environments import counting_envs
from tests.support.sb3 import ALL_ALGORITHMS, flat_parameters, make_model

N_STEPS, N_ENVS = 8, 2
#: Enough rollouts to have twenty episodes by their weights.
ROLLOUTS = 50


def rising(number: int) -> float:
    return 0.1 * (number % 100)


def falling(number: int) -> float:
    return -rising(number)


def at_times(number: int) -> float:
    return rising(number) * (number % 4 == 0)


def learnt(
    callback: IntrinsicRewardCallback | None,
    reward: Callable[[int], float] = rising,
    *,
    algo: str = "PPO",
    rollouts: int = 5,
    wrap: Any = None,
) -> torch.Tensor:
    env: Any = counting_envs(N_ENVS, lengths=((4,), (3,)), reward=reward)
    model = make_model(algo, env if wrap is None else wrap(env), n_steps=N_STEPS)
    return flat_parameters(model.learn(rollouts * N_STEPS * N_ENVS, callback=callback))


@pytest.mark.parametrize("algo", ALL_ALGORITHMS)
def test_while_the_task_teaches_the_policy_learns_as_without_a_bonus(algo: str) -> None:
    waiting, acting = IntrinsicRewardCallback("re3", k=2), IntrinsicRewardCallback("re3", k=2, yield_to_task=False)
    alone = learnt(None, algo=algo)
    assert torch.equal(learnt(waiting, algo=algo), alone)
    assert not torch.equal(learnt(acting, algo=algo), alone)
    shown = {name: waiting.latest[name] for name in ("task_teaches", "strength", "weight", "bonus_share")}
    assert shown == {"task_teaches": 1, "strength": 0, "weight": 0, "bonus_share": 0}
    assert acting.latest["task_teaches"] == 1
    assert acting.latest["strength"] == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize(
    ("reward", "teaches"), [(rising, 1), (falling, 0), (at_times, 0), (lambda number: -1.0, 0)], ids=str
)
@pytest.mark.parametrize("wrap", [None, VecNormalize], ids=["plain", "VecNormalize"])
def test_it_waits_for_a_dense_reward_with_rising_returns_only(
    reward: Callable[[int], float], teaches: int, wrap: Any
) -> None:
    """VecNormalize's scale drifts, so that a constant reward seems to vary, and a falling one to rise."""
    callback = IntrinsicRewardCallback("re3", k=2)
    learnt(callback, reward, rollouts=6 if reward is rising else ROLLOUTS, wrap=wrap)
    assert callback.latest["task_teaches"] == teaches
    assert (callback.latest["bonus_share"] > 0) == (not teaches)


def test_its_own_rewards_tell_not_those_that_vecnormalize_scales() -> None:
    """Divided by a growing deviation, -1 on every step differs from step to step and seems to rise."""
    callback = IntrinsicRewardCallback("re3", k=2)
    learnt(callback, lambda number: -1.0, rollouts=3, wrap=lambda env: VecNormalize(env, clip_reward=1e9))
    assert callback.latest["task_teaches"] == 0


def test_a_task_that_pays_rarely_gets_the_bonus_from_the_first_rollout() -> None:
    callback = IntrinsicRewardCallback("re3", k=2)
    learnt(callback, at_times, rollouts=1)
    assert callback.latest["strength"] > 0


def test_without_the_tasks_reward_there_is_nothing_to_wait_for() -> None:
    one, other = (
        learnt(IntrinsicRewardCallback("re3", k=2, extrinsic_weight=0.0, yield_to_task=value))
        for value in (True, False)
    )
    assert torch.equal(one, other)


def test_the_returns_so_far_are_in_the_callbacks_file(tmp_path: Path) -> None:
    first, second = (IntrinsicRewardCallback("re3", k=2) for _ in range(2))
    learnt(first, falling, rollouts=ROLLOUTS)
    first.save(tmp_path / "callback")
    second.load(tmp_path / "callback")
    models = [learnt(callback, lambda number: -20 - rising(number), rollouts=1) for callback in (first, second)]
    assert torch.equal(*models)
    assert first.latest["task_teaches"] == second.latest["task_teaches"] == 0, (
        "a new one would wait for twenty episodes"
    )
    for one, other in zip(*(each.checkpoint().weighting.items() for each in (first, second)), strict=True):
        assert one[0] == other[0]
        assert torch.equal(one[1], other[1])


def test_a_file_from_before_the_tasks_progress_was_watched_fits() -> None:
    old, new = IntrinsicRewardCallback("re3", k=2), IntrinsicRewardCallback("re3", k=2)
    learnt(old)
    checkpoint = old.checkpoint()
    for name in [name for name in checkpoint.weighting if name.startswith("task_progress.")]:
        del checkpoint.weighting[name]
    new.restore(checkpoint)
    learnt(new, rollouts=1)
    assert (new.rollouts, new.latest["task_teaches"]) == (6, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"yield_to_task": 1}, "yield_to_task must be True or False, got 1"),
        ({"weight": 0.1, "yield_to_task": False}, "yield_to_task belongs to weight='auto', but weight is 0.1"),
        ({"yields_to_task": False}, "yield_to_task"),
    ],
)
def test_wrong_arguments_are_told_what_is_right(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        IntrinsicRewardCallback("re3", **arguments)
